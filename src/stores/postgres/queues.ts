// Queues: paused or not, and the settings for jobs that have none of their own.

import type { QueueSettings, QueueView } from '../../core/job.js'
import type { Database, Send } from './database.js'
import { arrayOf, readJson, statement } from './statement.js'

const KNOW_QUEUES = statement(
  'know_queues',
  'INSERT INTO :schema.queues (name) SELECT unnest($1::text[]) ON CONFLICT DO NOTHING',
)

/** Writes down names that jobs were enqueued under, so that an operator finds them. */
export async function knowQueues(send: Send, names: readonly string[]): Promise<void> {
  await send(KNOW_QUEUES, [arrayOf(names)])
}

const NAMES = statement('queue_names', 'SELECT name FROM :schema.queues ORDER BY name LIMIT 10000')

/** The names of all queues, in order. */
export async function queueNames(send: Send): Promise<readonly string[]> {
  return (await send(NAMES, [])).map(([name]) => name!)
}

const audited = (change: string, details = 'NULL::json') => `
WITH changed AS (
  ${change}
)
INSERT INTO :schema.audit (at, actor, action, target, details)
SELECT coalesce($1::timestamptz, clock_timestamp()), $2, $3, $4, ${details}`

const PAUSE = statement(
  'pause',
  audited(`INSERT INTO :schema.queues (name, paused) VALUES ($4, true)
      ON CONFLICT (name) DO UPDATE SET paused = true`),
)

export async function pause(db: Database, queue: string, by: string): Promise<void> {
  await db.send('operate', PAUSE, [db.now(), by, 'pause', queue])
}

// A queue that nobody knows is not paused, and resuming it makes none.
const RESUME = statement('resume', audited('UPDATE :schema.queues SET paused = false WHERE name = $4'))

export async function resume(db: Database, queue: string, by: string): Promise<void> {
  await db.send('operate', RESUME, [db.now(), by, 'resume', queue])
}

const SET_QUEUE = statement(
  'set_queue',
  audited(
    `INSERT INTO :schema.queues (name, settings) VALUES ($4, $5::json)
      ON CONFLICT (name) DO UPDATE SET settings = excluded.settings`,
    '$5',
  ),
)

export async function setQueue(db: Database, queue: string, settings: QueueSettings, by: string): Promise<void> {
  await db.send('operate', SET_QUEUE, [db.now(), by, 'set queue', queue, JSON.stringify(settings)])
}

const QUEUES = statement('queues', 'SELECT name, paused, settings FROM :schema.queues ORDER BY name LIMIT 10000')

export async function queues(db: Database): Promise<readonly QueueView[]> {
  const rows = await db.send('look', QUEUES, [])
  return rows.map(([name, paused, settings]) => ({
    name: name!,
    paused: paused === 't',
    settings: (readJson(settings) ?? { limits: {} }) as QueueSettings,
  }))
}
