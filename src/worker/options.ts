// What a worker can be told, checked once at construction; inside the worker every setting is complete and in
// milliseconds.

import { checkKeys, checkName, checkWhole } from '../core/check.js'
import type { Handler, JobFailure } from '../core/definition.js'
import { type Duration, durationMs, showMs } from '../core/duration.js'
import { HoldfastError, show } from '../core/errors.js'
import { BATCH_MAX } from '../core/job-store.js'

export interface WorkerOptions {
  /** The code the worker runs, one handler for each type. Jobs of other types are left for workers that know them. */
  readonly handlers: readonly Handler[]
  /** The queues it takes jobs from: a list, each getting its turn, or an object with the weight of each, from 1 to 1,000. A queue of weight
   *  6 starts six jobs for each one of weight 1, while both have jobs; what an empty queue leaves goes to the others. Default: the
   *  queues of the handlers' definitions. */
  readonly queues?: readonly string[] | Readonly<Record<string, number>>
  /** How many jobs run concurrently, from 1 to 4,096. Default 10. Handlers that wait for others want more; handlers that
   *  compute gain nothing beyond one and make each other late. */
  readonly concurrency?: number
  /** The most jobs claimed ahead of a free slot. Default 1,000, reached only with jobs of a few milliseconds: a worker claims
   *  no further ahead than its slots free up within a tenth of a second, as jobs have run so far, because a job that waits
   *  here is not run by an idle worker elsewhere. 0 claims only what can start immediately. */
  readonly prefetch?: number
  /** The most jobs one claim takes. Default 500, at most 5,000. Larger claims cost less for each job and hold the store
   *  longer. */
  readonly claimBatch?: number
  /** How long a claim is good for without being extended. Default '30s', at least '500ms'. Shorter recovers the jobs of a
   *  killed worker sooner and costs more extensions; at a few seconds a long pause can lose a healthy lease. */
  readonly lease?: Duration
  /** How often leases are extended. Default a third of `lease`, at most half of it. */
  readonly heartbeat?: Duration
  /** How long `stop()` lets running jobs finish before it aborts and releases them. Default '15s'; null waits for ever. */
  readonly drain?: Duration | null
  /** How soon an idle worker looks again after it found something. Default '50ms'. Wake-ups from the store come sooner. */
  readonly pollMin?: Duration
  /** How seldom an idle worker looks when nothing comes. Default '5s'. It bounds the delay when wake-ups are lost. */
  readonly pollMax?: Duration
  /** What the worker's id begins with. Default the name of the host. */
  readonly name?: string
  /** Called for each attempt of its jobs that failed and will be retried, and for each job that it left dead, whatever its type: after the hooks
   *  of the definition, and as those are. Default null: nobody. */
  readonly onRetry?: ((failure: JobFailure) => unknown) | null
  readonly onDead?: ((failure: JobFailure) => unknown) | null
}

/** A worker's settings, complete. */
export interface WorkerSettings {
  readonly handlers: ReadonlyMap<string, Handler>
  readonly queues: readonly string[]
  /** Null when all have the same. */
  readonly weights: ReadonlyMap<string, number> | null
  readonly concurrency: number
  readonly prefetch: number
  readonly claimBatch: number
  readonly leaseMs: number
  readonly heartbeatMs: number
  readonly drainMs: number | null
  readonly pollMinMs: number
  readonly pollMaxMs: number
  readonly name: string | null
  readonly onRetry: FailureHook | null
  readonly onDead: FailureHook | null
}

export type FailureHook = (failure: JobFailure) => unknown

const WORKER_DEFAULTS = {
  concurrency: 10,
  prefetch: 1_000,
  claimBatch: 500,
  lease: '30s',
  drain: '15s',
  pollMin: '50ms',
  pollMax: '5s',
} as const

const CONCURRENCY_MAX = 4_096
const HANDLERS_MAX = 1_000
const QUEUES_MAX = 200
const LEASE_MS_MIN = 500
const LEASE_MS_MAX = 3_600_000
const POLL_MS_MAX = 60_000
const KNOWN = [
  'handlers',
  'queues',
  'concurrency',
  'prefetch',
  'claimBatch',
  'lease',
  'heartbeat',
  'drain',
  'pollMin',
  'pollMax',
  'name',
  'onRetry',
  'onDead',
]

/** Checks a worker's options and fills in what is left out. */
export function resolveWorkerOptions(options: WorkerOptions): WorkerSettings {
  checkKeys('worker', options, KNOWN)
  const handlers = resolveHandlers(options.handlers)
  const concurrency = checkWhole('concurrency', options.concurrency ?? WORKER_DEFAULTS.concurrency, 1, CONCURRENCY_MAX)
  const prefetch = options.prefetch ?? WORKER_DEFAULTS.prefetch
  const leaseMs = durationMs(options.lease ?? WORKER_DEFAULTS.lease, {
    name: 'lease',
    minMs: LEASE_MS_MIN,
    maxMs: LEASE_MS_MAX,
  })
  const pollMinMs = durationMs(options.pollMin ?? WORKER_DEFAULTS.pollMin, {
    name: 'pollMin',
    minMs: 1,
    maxMs: POLL_MS_MAX,
  })
  return {
    handlers,
    ...resolveQueues(options.queues, handlers),
    concurrency,
    prefetch: checkWhole('prefetch', prefetch, 0, BATCH_MAX),
    claimBatch: checkWhole('claimBatch', options.claimBatch ?? WORKER_DEFAULTS.claimBatch, 1, BATCH_MAX),
    leaseMs,
    heartbeatMs: resolveHeartbeat(options.heartbeat, leaseMs),
    drainMs: resolveDrain(options.drain === undefined ? WORKER_DEFAULTS.drain : options.drain),
    pollMinMs,
    pollMaxMs: durationMs(options.pollMax ?? Math.max(pollMinMs, durationMs(WORKER_DEFAULTS.pollMax, { name: '' })), {
      name: 'pollMax',
      minMs: pollMinMs,
      maxMs: POLL_MS_MAX,
    }),
    name: options.name === undefined ? null : checkName('name', options.name),
    onRetry: checkHook('onRetry', options.onRetry ?? null),
    onDead: checkHook('onDead', options.onDead ?? null),
  }
}

function checkHook(name: string, hook: unknown): FailureHook | null {
  if (hook === null || typeof hook === 'function') return hook as FailureHook | null
  throw new HoldfastError('invalid_option', `${name} must be a function, got ${show(hook)}`)
}

/** How long a drain may take: a duration, or null for ever. */
export function resolveDrain(drain: unknown): number | null {
  return drain === null ? null : durationMs(drain, { name: 'drain' })
}

/** Checks a list of handlers; raises `invalid_option` or `duplicate_handler`. */
export function resolveHandlers(handlers: unknown): ReadonlyMap<string, Handler> {
  if (!Array.isArray(handlers) || handlers.length === 0 || handlers.length > HANDLERS_MAX) {
    throw new HoldfastError(
      'invalid_option',
      `handlers must be an array of 1 to ${HANDLERS_MAX} handlers, each made with defineJob(…).handle(…), got ${show(handlers)}`,
    )
  }
  const byType = new Map<string, Handler>()
  for (const handler of handlers as readonly unknown[]) {
    if (!isHandler(handler)) {
      throw new HoldfastError(
        'invalid_option',
        `handlers must hold what defineJob(…).handle(…) returns, got ${show(handler)}`,
      )
    }
    const { type } = handler.definition
    if (byType.has(type)) {
      throw new HoldfastError(
        'duplicate_handler',
        `type "${type}" has two handlers: a worker runs one for each type, remove the other`,
        { details: { type } },
      )
    }
    byType.set(type, handler)
  }
  return byType
}

function isHandler(value: unknown): value is Handler {
  if (typeof value !== 'object' || value === null) return false
  const { definition, run } = value as Partial<Handler>
  return typeof run === 'function' && typeof definition === 'object' && typeof definition?.type === 'string'
}

function resolveQueues(
  queues: unknown,
  handlers: ReadonlyMap<string, Handler>,
): Pick<WorkerSettings, 'queues' | 'weights'> {
  if (typeof queues === 'object' && queues !== null && !Array.isArray(queues)) return resolveWeights(queues)
  return { queues: resolveList(queues, handlers), weights: null }
}

const WEIGHT_MAX = 1_000

function resolveWeights(queues: object): Pick<WorkerSettings, 'queues' | 'weights'> {
  const entries = Object.entries(queues)
  checkQueueCount(entries.length, queues)
  const weights = new Map<string, number>()
  for (const [queue, weight] of entries) {
    weights.set(checkName('queue', queue), checkWhole(`the weight of queue "${queue}"`, weight, 1, WEIGHT_MAX))
  }
  return { queues: [...weights.keys()], weights }
}

function resolveList(queues: unknown, handlers: ReadonlyMap<string, Handler>): readonly string[] {
  if (queues === undefined) return [...new Set([...handlers.values()].map(({ definition }) => definition.queue))]
  checkQueueCount(Array.isArray(queues) ? queues.length : 0, queues)
  return [...new Set((queues as unknown[]).map((queue) => checkName('queue', queue)))]
}

function checkQueueCount(count: number, queues: unknown): void {
  if (count > 0 && count <= QUEUES_MAX) return
  throw new HoldfastError(
    'invalid_option',
    `queues must be an array of 1 to ${QUEUES_MAX} queue names, or an object with their weights, got ${show(queues)}`,
  )
}

function resolveHeartbeat(heartbeat: Duration | undefined, leaseMs: number): number {
  if (heartbeat === undefined) return Math.floor(leaseMs / 3)
  const heartbeatMs = durationMs(heartbeat, { name: 'heartbeat', minMs: 50 })
  if (heartbeatMs * 2 <= leaseMs) return heartbeatMs
  throw new HoldfastError(
    'invalid_option',
    `heartbeat must be at most half of lease (${showMs(leaseMs)}), so that one lost extension loses no job, got ${show(heartbeat)}`,
  )
}
