// Flow control of a queue: its row in flows, which is the lock of its claims, and its limit. ◄── queues.ts

import { queueLimitName } from '../../core/flow/job-flow.js'
import { NO_GROUP_SETTINGS, NO_LIMIT, type QueueFlow } from '../../core/flow/settings.js'
import type { Database, Send } from './database.js'
import { KEEP_LIMIT, limitValues, rateValues } from './limit-row.js'
import { type Statement, statement } from './statement.js'

const OPEN = statement('open_flow', 'INSERT INTO :schema.flows (queue) VALUES ($1) ON CONFLICT DO NOTHING')
/** The lock of a queue's claims. Enqueues and settlements do not wait for it. */
export const LOCK_FLOW: Statement = statement(
  'lock_flow',
  'SELECT flows.queue FROM :schema.flows WHERE flows.queue = $1 FOR NO KEY UPDATE',
)
// What held jobs and their groups must be told is done by a walk. One that is sorting goes on, unless the order changes again.
const SET = statement(
  'set_flow',
  `
UPDATE :schema.flows
   SET concurrency = $2::integer, rate_limit = $3::float8, rate_per_ms = $4::float8, rate_burst = $5::float8,
       rate_by_cost = $6::boolean, ordered = flows.ordered AND $7::boolean, in_order = $7, waits_for_retry = $8::boolean, stops_for_dead = $9::boolean,
       group_depth = $10::integer, depth = $11::integer, on_full = $12, aging_ms = $13::float8,
       walk = CASE WHEN flows.in_order <> $7 OR flows.walk = 'sort' THEN 'sort' ELSE 'offer' END,
       walk_track = CASE WHEN flows.in_order = $7 AND flows.walk = 'sort' THEN flows.walk_track END,
       walk_group = CASE WHEN flows.in_order = $7 AND flows.walk = 'sort' THEN flows.walk_group END
 WHERE queue = $1`,
)
const MARK = statement('mark_flow', 'UPDATE :schema.queues SET flow = $2::boolean WHERE name = $1 AND flow <> $2')

// Jobs that run already count from now on.
const COUNT_RUNNING = statement(
  'count_running_in_flow',
  `
UPDATE :schema.running
   SET track = - (SELECT flows.number FROM :schema.flows WHERE flows.queue = $1)
 WHERE running.queue = $1 AND running.track = 0`,
)

const CLOSE = statement(
  'close_flow',
  `
DELETE FROM :schema.flows
 WHERE flows.queue = $1
   AND NOT EXISTS (SELECT FROM :schema.tracks WHERE tracks.queue = $1 AND NOT tracks.forgotten)`,
)
const HAS_FLOW = statement('has_flow', 'SELECT true::text FROM :schema.flows WHERE flows.queue = $1')

const WALK = statement('walk_held', 'SELECT :schema.walk_held($1, $2::integer)::text')
/** Jobs, or groups, of one step. Claims of the queue wait meanwhile, for some milliseconds. */
const STEP = 500
/** How long setQueue goes on. Upkeep does the rest. */
const WALK_MS_MAX = 60_000

/** Takes a step of the walk through a queue's held jobs. True when it is at its end. */
export async function walkHeld(send: Send, queue: string): Promise<boolean> {
  const [[isOver] = []] = await send(WALK, [queue, STEP])
  return isOver === 'true'
}

/** Walks on until the end, in a transaction for each step. */
export async function walkToEnd(db: Database, queue: string): Promise<void> {
  const untilMs = performance.now() + WALK_MS_MAX
  while (performance.now() < untilMs) if (await walkHeld((...call) => db.send('operate', ...call), queue)) return
}

/** Keeps what a queue's settings say about flow control, inside the transaction that sets them. False when held jobs are left to walk
 *  through. */
export async function keepFlow(send: Send, queue: string, flow: QueueFlow | undefined): Promise<boolean> {
  if (flow === undefined && (await send(HAS_FLOW, [queue])).length === 0) return true
  const groups = flow?.groups ?? NO_GROUP_SETTINGS
  await send(OPEN, [queue])
  await send(LOCK_FLOW, [queue])
  await send(SET, [
    queue,
    groups.concurrency,
    ...rateValues(groups.rate),
    groups.ordered,
    groups.onRetry === 'wait',
    groups.onDead === 'stop',
    groups.maxDepth,
    flow?.maxDepth ?? null,
    flow?.onFull ?? 'reject',
    flow?.agingMs ?? null,
  ])
  await keepLimit(send, queue, flow)
  const isWalked = await walkHeld(send, queue)
  if (flow === undefined) await send(CLOSE, [queue])
  else await send(COUNT_RUNNING, [queue])
  await send(MARK, [queue, (await send(HAS_FLOW, [queue])).length > 0])
  return isWalked
}

const REMOVE_LIMIT = statement('remove_queue_limit', 'DELETE FROM :schema.limits WHERE limits.name = $1')

async function keepLimit(send: Send, queue: string, flow: QueueFlow | undefined): Promise<void> {
  const name = queueLimitName(queue)
  if (flow === undefined) {
    await send(REMOVE_LIMIT, [name])
    return
  }
  const settings = { ...NO_LIMIT, concurrency: flow.concurrency, rate: flow.rate }
  await send(KEEP_LIMIT, [null, name, ...limitValues(settings, 'operator', null)])
}

const FORGET = [
  'UPDATE :schema.tracks SET forgotten = true WHERE tracks.queue = $1',
  'DELETE FROM :schema.flows WHERE flows.queue = $1',
  'DELETE FROM :schema.groups WHERE groups.queue = $1',
].map((sql, index) => statement(`forget_flow_${index}`, sql))

/** Forgets flow control of a queue that is removed. */
export async function forgetFlow(send: Send, queue: string): Promise<void> {
  for (const sql of FORGET) await send(sql, [queue])
  await send(REMOVE_LIMIT, [queueLimitName(queue)])
}
