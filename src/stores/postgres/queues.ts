// Queues: paused or not, and the settings for jobs that have none of their own.

import type { QueueSettings, QueueView } from '../../core/job.js'
import type { Database } from './database.js'
import { arrayOf, readJson, statement } from './statement.js'

const KNOW_QUEUES = statement(
  'know_queues',
  'INSERT INTO :schema.queues (name) SELECT unnest($1::text[]) ON CONFLICT DO NOTHING',
)

/** Writes down names that jobs were enqueued under, so that an operator finds them. */
export async function knowQueues(db: Database, names: readonly string[]): Promise<void> {
  await db.send('operate', KNOW_QUEUES, [arrayOf(names)])
}

const audited = (change: string) => `
WITH changed AS (
  ${change}
)
INSERT INTO :schema.audit (at, actor, action, target)
SELECT coalesce($1::timestamptz, clock_timestamp()), $2, $3, $4`

const SET_PAUSED = statement(
  'set_paused',
  audited(`INSERT INTO :schema.queues (name, paused) VALUES ($4, $5)
      ON CONFLICT (name) DO UPDATE SET paused = excluded.paused`),
)

export async function setPaused(db: Database, queue: string, paused: boolean, by: string): Promise<void> {
  await db.send('operate', SET_PAUSED, [db.now(), by, paused ? 'pause' : 'resume', queue, paused])
}

const SET_QUEUE = statement(
  'set_queue',
  audited(`INSERT INTO :schema.queues (name, settings) VALUES ($4, $5)
      ON CONFLICT (name) DO UPDATE SET settings = excluded.settings`),
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
