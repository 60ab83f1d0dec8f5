// Queues: paused or not, and the settings for jobs that have none of their own.

import { isHoldfastError } from '../../core/errors.js'
import { OVERVIEW_QUEUES_MAX, type OverviewRequest } from '../../core/operating.js'
import { tooManyQueues, tooManyQueuesOfRole } from '../../core/queue-limit.js'
import type { QueueSettings, QueueView } from '../../core/views.js'
import { record } from './audit.js'
import type { Database, Purpose, Send } from './database.js'
import { LOCK_NOT_AVAILABLE } from './errors.js'
import { forgetFlow, keepFlow, walkToEnd } from './queue-flow.js'
import { arrayOf, type Row, readJson, statement } from './statement.js'

// Two processes that create queues at the same moment may together exceed the bounds by a few. If an open transaction is writing a name,
// this does not wait for it, because only lists of queues need the name.
const KNOW_QUEUES = statement(
  'know_queues',
  `
WITH fresh AS MATERIALIZED (
  SELECT DISTINCT asked.name
    FROM unnest($1::text[]) AS asked (name)
   WHERE NOT EXISTS (SELECT FROM :schema.queues WHERE queues.name = asked.name)
), room AS MATERIALIZED (
  SELECT pg_catalog.set_config('lock_timeout', '50ms', true) AS patience,
         count(*) > 0 AND count(*) + (SELECT count(*) FROM (SELECT name FROM :schema.queues LIMIT $4::integer) AS few) > $4 AS too_many,
         count(*) > 0 AND $3::text IS NOT NULL
         AND count(*) + (SELECT count(*) FROM :schema.queues WHERE queues.created_by = $3) > $5::integer AS too_many_of_one
    FROM fresh
), made AS (
  INSERT INTO :schema.queues (name, created_at, created_by)
  SELECT fresh.name, moment.now, $3
    FROM fresh, room, (SELECT coalesce($2::timestamptz, clock_timestamp()) AS now) AS moment
   WHERE NOT room.too_many
     AND NOT room.too_many_of_one
      ON CONFLICT DO NOTHING
)
SELECT too_many, too_many_of_one FROM room`,
)

/** Limits on creating queues. */
interface QueueBounds {
  /** How many there may be in all; null for any number. */
  readonly max: number | null
  readonly by?: { readonly name: string; readonly most: number }
}

const ANY_NUMBER = 2 ** 31 - 1
// The error that the trigger of migration 8 raises, and the number of queues from which on it does.
const LIMIT_EXCEEDED = '54000'
const OF_ROLE_MAX = 1_000

/** The result for new names: known from now on, too many for `by`, or an open transaction is writing one of them. */
type Knowing = 'known' | 'too many' | 'in writing'

/** Records the names of queues that jobs are enqueued to, so that operators can list them. */
export async function knowQueues(
  db: Database,
  send: Send,
  names: readonly string[],
  { max, by }: QueueBounds,
): Promise<Knowing> {
  const bounds = [by?.name ?? null, max ?? ANY_NUMBER, by?.most ?? ANY_NUMBER]
  const rows = await send(KNOW_QUEUES, [arrayOf(names), db.now(), ...bounds]).catch((error: unknown) => {
    const sqlState = isHoldfastError(error) ? error.details.sqlState : null
    if (sqlState === LOCK_NOT_AVAILABLE) return null
    throw sqlState === LIMIT_EXCEEDED ? tooManyQueuesOfRole(names, OF_ROLE_MAX, error) : error
  })
  if (rows === null) return 'in writing'
  const [tooMany, tooManyOfOne] = rows[0]!
  if (tooMany === 't') throw tooManyQueues(names, max ?? ANY_NUMBER)
  return tooManyOfOne === 't' ? 'too many' : 'known'
}

const LOCK = statement('lock_queue', 'SELECT name FROM :schema.queues WHERE name = $1 FOR UPDATE')

// Some of these tables have no index on queue. They are read until a job of the queue is found.
const IS_BUSY = statement(
  'is_queue_busy',
  `
SELECT EXISTS (SELECT FROM :schema.ready WHERE queue = $1)
    OR EXISTS (SELECT FROM :schema.dead WHERE queue = $1)
    OR EXISTS (SELECT FROM :schema.running WHERE queue = $1)
    OR EXISTS (SELECT FROM :schema.blocked WHERE queue = $1)
    OR EXISTS (SELECT FROM :schema.scheduled WHERE queue = $1)
    OR EXISTS (SELECT FROM :schema.held WHERE track = ANY (ARRAY(SELECT tracks.track FROM :schema.tracks WHERE tracks.queue = $1)))`,
)

const REMOVE = statement('remove_queue', 'DELETE FROM :schema.queues WHERE name = $1')

/** Forgets a queue. A job that is enqueued into it at the same moment makes it known again within a minute (store.ts). */
export async function removeQueue(db: Database, name: string, by: string): Promise<'removed' | 'busy' | 'missing'> {
  return db.transaction('bulk', async (send) => {
    if ((await send(LOCK, [name])).length === 0) return 'missing'
    const [[isBusy] = []] = await send(IS_BUSY, [name])
    if (isBusy === 't') return 'busy'
    await send(REMOVE, [name])
    await forgetFlow(send, name)
    await record(db, send, { actor: by, action: 'remove queue', target: name })
    return 'removed'
  })
}

const NAMES = statement('queue_names', 'SELECT name FROM :schema.queues ORDER BY name LIMIT 10000')

/** The names of all queues, in order. */
export async function queueNames(send: Send): Promise<readonly string[]> {
  return (await send(NAMES, [])).map(([name]) => name!)
}

const audited = (change: string, { before = '', details = 'NULL::json', of = '' } = {}) => `
WITH ${before}changed AS (
  ${change}
)
INSERT INTO :schema.audit (at, actor, action, target, details)
SELECT coalesce($1::timestamptz, clock_timestamp()), $2, $3, $4, ${details}${of}`

const PAUSE = statement(
  'pause',
  audited(`INSERT INTO :schema.queues (name, paused, created_at)
  VALUES ($4, true, coalesce($1::timestamptz, clock_timestamp()))
      ON CONFLICT (name) DO UPDATE SET paused = true`),
)

export async function pause(db: Database, queue: string, by: string, purpose: Purpose = 'operate'): Promise<void> {
  await db.send(purpose, PAUSE, [db.now(), by, 'pause', queue])
}

// An unknown queue is not paused, so resuming it does not create it.
const RESUME = statement('resume', audited('UPDATE :schema.queues SET paused = false WHERE name = $4'))

export async function resume(db: Database, queue: string, by: string, purpose: Purpose = 'operate'): Promise<void> {
  await db.send(purpose, RESUME, [db.now(), by, 'resume', queue])
}

const SET_QUEUE = statement(
  'set_queue',
  audited(
    // Programs set their queues at every start: only what differs is a change.
    `INSERT INTO :schema.queues (name, settings, created_at)
     VALUES ($4, $5::json, coalesce($1::timestamptz, clock_timestamp()))
      ON CONFLICT (name) DO UPDATE SET settings = excluded.settings
   WHERE coalesce(queues.settings::text, '{"limits":{}}') <> excluded.settings::text
  RETURNING name`,
    {
      before: `known AS MATERIALIZED (
  SELECT coalesce(queues.settings, '{"limits":{}}') AS settings FROM :schema.queues WHERE queues.name = $4
), `,
      details: `json_build_object('before', (SELECT known.settings FROM known), 'after', $5::json)`,
      of: ' FROM changed RETURNING target',
    },
  ),
)

export async function setQueue(db: Database, queue: string, settings: QueueSettings, by: string): Promise<void> {
  const values = [db.now(), by, 'set queue', queue, JSON.stringify(settings)]
  const isWalked = await db.transaction('operate', async (send) => {
    // Settings that hold already must not lift a wait that a handler was told meanwhile.
    return (await send(SET_QUEUE, values)).length === 0 || keepFlow(send, queue, settings.flow)
  })
  if (!isWalked) await walkToEnd(db, queue)
}

const SHOWN = statement(
  'queues_shown',
  `
SELECT name, paused, settings
  FROM :schema.queues
 WHERE $1::text[] IS NULL OR name = ANY ($1)
 ORDER BY (paused OR coalesce(settings::text, '{"limits":{}}') <> '{"limits":{}}' OR name = ANY ($2::text[])) DESC, created_at, name
OFFSET $3
 LIMIT $4`,
)

const TOTAL = statement('queues_total', 'SELECT count(*) FROM :schema.queues')

/** The queues an overview shows, and how many there are. */
export async function queuesShown(
  send: Send,
  { queues: asked, offset = 0 }: OverviewRequest,
  served: readonly string[],
): Promise<{ readonly shown: readonly QueueView[]; readonly total: number }> {
  const values = [asked === undefined ? null : arrayOf(asked), arrayOf(served), offset, OVERVIEW_QUEUES_MAX]
  const [rows, [[total] = []]] = await Promise.all([send(SHOWN, values), send(TOTAL, [])])
  return { shown: rows.map(readQueue), total: Number(total) }
}

const QUEUES = statement('queues', 'SELECT name, paused, settings FROM :schema.queues ORDER BY name LIMIT 10000')

export async function queues(db: Database): Promise<readonly QueueView[]> {
  const rows = await db.send('look', QUEUES, [])
  return rows.map(readQueue)
}

function readQueue([name, paused, settings]: Row): QueueView {
  return {
    name: name!,
    paused: paused === 't',
    settings: (readJson(settings) ?? { limits: {} }) as QueueSettings,
  }
}
