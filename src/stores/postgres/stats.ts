// stats: how many jobs are in each state, in one queue or in all.

import { ATTEMPTS_WINDOW, COUNT_EXACT_MAX, type QueueStats } from '../../core/views.js'
import type { Database, Send } from './database.js'
import { ALL, depthOf, readDepths, readOldestAges } from './depths.js'
import { queueNames } from './queues.js'
import { statement } from './statement.js'

/** The queue of a finished job is only in `jobs`. So this many of the newest finished jobs are looked up there. */
const FINISHED_LOOKED_AT = 5_000

const attemptsSql = (finishedOfQueue: string, deadOfQueue: string) => `
WITH recent AS MATERIALIZED (
  SELECT finished.id, finished.attempt, finished.ending FROM :schema.finished ORDER BY finished.id DESC LIMIT $2
), ended AS (
  SELECT recent.id, recent.attempt FROM recent WHERE recent.ending = 'succeeded' ${finishedOfQueue}
   UNION ALL
  (SELECT dead.id, dead.attempt FROM :schema.dead WHERE ${deadOfQueue} ORDER BY dead.id DESC LIMIT $3)
), newest AS (
  SELECT attempt FROM ended ORDER BY id DESC LIMIT $3
)
SELECT percentile_disc(0.99) WITHIN GROUP (ORDER BY attempt) FROM newest`

const ATTEMPTS = statement('attempts_p99', attemptsSql('', '$1::text IS NULL'))
const ATTEMPTS_OF_QUEUE = statement(
  'attempts_p99_of',
  attemptsSql(
    'AND EXISTS (SELECT FROM :schema.jobs WHERE jobs.id = recent.id AND jobs.queue = $1 OFFSET 0)',
    'dead.queue = $1',
  ),
)

export async function stats(db: Database, queue: string | null): Promise<QueueStats> {
  const send: Send = (sql, values) => db.send('count', sql, values)
  const names = queue === null ? await queueNames(send) : [queue]
  const [depths, ages, [[attemptsP99] = []]] = await Promise.all([
    readDepths(db, queue === null ? null : [queue], COUNT_EXACT_MAX),
    readOldestAges(db, names),
    send(queue === null ? ATTEMPTS : ATTEMPTS_OF_QUEUE, [queue, FINISHED_LOOKED_AT, ATTEMPTS_WINDOW]),
  ])
  return {
    ...depthOf(depths, queue ?? ALL),
    oldestAgeS: [...ages.values()].reduce((oldest, age) => Math.max(oldest, age), 0),
    attemptsP99: Number(attemptsP99 ?? 0),
    isExact: depths.isExact,
  }
}
