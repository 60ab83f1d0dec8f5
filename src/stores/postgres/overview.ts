// overview: all queues at a glance.

import {
  BUCKET_MS,
  isLiveAfter,
  type Overview,
  type OverviewRequest,
  type QueueOverview,
  type Rates,
} from '../../core/operating.js'
import type { Database, Send } from './database.js'
import { depthOf, GLANCE_EXACT_MAX, readDepths, readOldestAges } from './depths.js'
import { readNow } from './list.js'
import { queuesShown } from './queues.js'
import { arrayOf, statement } from './statement.js'
import { workers } from './workers.js'

export async function overview(db: Database, request: OverviewRequest = {}): Promise<Overview> {
  const send: Send = (sql, values) => db.send('count', sql, values)
  const nowMs = await readNow(db, send)
  const live = (await workers(db)).filter((worker) => isLiveAfter(nowMs - worker.seenAt.getTime(), worker))
  const served = [...new Set(live.flatMap((worker) => worker.queues))]
  const { shown, total } = await queuesShown(send, request, served)
  const names = shown.map(({ name }) => name)
  const [depths, ages, rates] = await Promise.all([
    readDepths(db, names, GLANCE_EXACT_MAX),
    readOldestAges(db, names),
    readRates(send, names, nowMs),
  ])
  return {
    nowMs,
    queues: shown.map((queue): QueueOverview => {
      const serving = live.filter((worker) => worker.queues.includes(queue.name))
      return {
        ...queue,
        ...depthOf(depths, queue.name),
        oldestAgeS: ages.get(queue.name) ?? 0,
        workers: serving.length,
        slots: serving.reduce((sum, worker) => sum + worker.concurrency, 0),
        rates: rates.get(queue.name) ?? { enqueued: 0, succeeded: 0, failed: 0, dead: 0 },
      }
    }),
    total,
    isExact: depths.isExact && (request.queues !== undefined || shown.length === total),
  }
}

const RATES = statement(
  'rates',
  `
SELECT asked.queue, sum(tallies.enqueued), sum(tallies.succeeded), sum(tallies.failed), sum(tallies.dead)
  FROM unnest($1::text[]) AS asked (queue)
 CROSS JOIN LATERAL (
   SELECT *
     FROM :schema.tallies
    WHERE tallies.queue = asked.queue
      AND tallies.at >= to_timestamp($2::float8 / 1000)
      AND tallies.at < to_timestamp($3::float8 / 1000)
   OFFSET 0
 ) AS tallies
 GROUP BY asked.queue`,
)

/** The six full steps before the current one, which is still being counted. */
async function readRates(send: Send, names: readonly string[], nowMs: number): Promise<ReadonlyMap<string, Rates>> {
  const endMs = nowMs - (nowMs % BUCKET_MS)
  const perSecond = (total: string | null | undefined) => Number(total) / 60
  const rows = await send(RATES, [arrayOf(names), endMs - 60_000, endMs])
  return new Map(
    rows.map(([queue, enqueued, succeeded, failed, dead]) => [
      queue!,
      {
        enqueued: perSecond(enqueued),
        succeeded: perSecond(succeeded),
        failed: perSecond(failed),
        dead: perSecond(dead),
      },
    ]),
  )
}
