// What operators do to jobs and queues, and how they look at them: checked arguments in, the store's word out.

import { checkBoolean, checkDate, checkId, checkKeys, checkText, checkWhole } from '../core/check.js'
import type { JobDefinition } from '../core/definition.js'
import { type Duration, durationMs } from '../core/duration.js'
import { HoldfastError, invalidOption } from '../core/errors.js'
import { readFilter } from '../core/filter.js'
import { spreadWithFlow } from '../core/flow/refusals.js'
import { QUEUE_FLOW_OPTIONS, type QueueFlowOptions, resolveQueueFlow } from '../core/flow/resolve.js'
import type { JobFilter } from '../core/job-filter.js'
import type { JobStore } from '../core/job-store.js'
import { encodePayload } from '../core/json.js'
import { type JobChanges, type Missing, type OperatorStore, PAGE_MAX, type Refused } from '../core/operator-store.js'
import { SPREAD_MAX } from '../core/queue-parts.js'
import { isFinished, type JobState } from '../core/states.js'
import type { QueueSettings } from '../core/views.js'
import { checkPriority, LIMIT_OPTIONS, type LimitOptions, resolveLimitOptions } from './define-job.js'
import { type FilterOptions, resolveFilter } from './filter-options.js'
import { encodeChecked, startingTerms } from './prepare.js'

const BY_LENGTH_MAX = 200
const REQUEUE_LIMIT_DEFAULT = 1_000
const REQUEUE_LIMIT_MAX = 100_000

/** Who does it, for the job's history. */
export interface ByOption {
  /** A name, an address, a program. Default 'api'. */
  readonly by?: string
}

/** Checks a `by` option and fills in its default. */
export function resolveBy(what: string, options: ByOption = {}): string {
  checkKeys(what, options, ['by'])
  return options.by === undefined ? 'api' : checkText('by', options.by, BY_LENGTH_MAX)
}

/** What a cancel came to: `cancelled`, or `asked` of a job that is running, whose worker is notified. */
export interface Cancelled {
  readonly id: string
  readonly result: 'cancelled' | 'asked'
}

export async function cancel(store: OperatorStore, id: string, options?: ByOption): Promise<Cancelled> {
  const by = resolveBy('cancel', options)
  const [result] = await store.cancel([checkId('id', id)], by)
  if (result!.result === 'refused' || result!.result === 'missing') {
    throw refusal(result!, { verb: 'cancelled', only: 'a job that has not finished can be' })
  }
  return { id, result: result!.result }
}

export async function discard(store: OperatorStore, id: string, options?: ByOption): Promise<void> {
  const by = resolveBy('discard', options)
  const [result] = await store.discard([checkId('id', id)], by)
  if (result!.result === 'refused' || result!.result === 'missing') {
    throw refusal(result!, { verb: 'discarded', only: 'a dead job can be, cancel() stops a living one' })
  }
}

export interface DeleteOptions extends ByOption {
  /** A job that is running is asked to stop, as by `cancel`, instead of refused. Default false. */
  readonly cancel?: boolean
}

/** What a delete came to: `deleted`; `asked` of a running job, whose worker is notified: delete it again when it has ended; `missing` when
 *  there is no such job, such as one that was deleted before. */
export interface Deleted {
  readonly id: string
  readonly result: 'deleted' | 'asked' | 'missing'
}

/** A job may begin to run, or end, between two calls. */
const DELETE_TRIES = 3

export async function deleteJob(store: OperatorStore, id: string, options: DeleteOptions = {}): Promise<Deleted> {
  checkKeys('delete', options, ['by', 'cancel'])
  const { cancel: mayCancel = false, ...others } = options
  const by = resolveBy('delete', others)
  checkBoolean('cancel', mayCancel)
  let result = (await store.delete([checkId('id', id)], by))[0]!
  for (let tries = 1; tries < DELETE_TRIES && result.result === 'refused'; tries++) {
    if (result.state === 'running' && !mayCancel) break
    if (result.state === 'running' && (await store.cancel([id], by))[0]!.result === 'asked')
      return { id, result: 'asked' }
    result = (await store.delete([id], by))[0]!
  }
  if (result.result !== 'refused') return { id, result: result.result }
  throw refusal(result, {
    verb: 'deleted',
    only: 'a job that does not run can be; cancel: true asks its worker to stop',
  })
}

/** What a requeue of one job came to. */
export interface Requeued {
  readonly id: string
  /** How often the job has been requeued by now: 1 for the first time. */
  readonly requeues: number
}

export async function requeueOne(store: OperatorStore, id: string, options?: ByOption): Promise<Requeued> {
  const by = resolveBy('requeue', options)
  const [result] = await store.requeue([checkId('id', id)], by)
  if (result!.result !== 'requeued') throw refusal(result!, { verb: 'requeued', only: 'a dead job can be' })
  return { id, requeues: result!.requeues }
}

/** Which dead jobs to requeue. */
export interface RequeueMany {
  /** Options that are absent match every dead job; or a filter in text, such as 'error:timeout queue:mail_*'. */
  readonly filter: Pick<FilterOptions, 'queue' | 'type' | 'tag' | 'group'> | string
  /** The most jobs to requeue, from 1 to 100,000. Default 1,000. */
  readonly limit?: number
}

/** What a requeue of many came to. */
export interface RequeuedMany {
  readonly requeued: number
  /** Those that stay dead: `heldBy`, or a transaction that has not ended, has taken the idempotency key. Or somebody was faster. */
  readonly refused: readonly { readonly id: string; readonly state: JobState; readonly heldBy: string | null }[]
  /** True when the limit was reached, so that there may be more. */
  readonly more: boolean
}

/** Requeues dead jobs page by page, newest first, so that no call of the store grows with their number. */
export async function requeueMany(
  store: OperatorStore,
  request: RequeueMany,
  options?: ByOption,
): Promise<RequeuedMany> {
  checkKeys('requeue', request, ['filter', 'limit'])
  const filter = deadOnly(request.filter)
  const by = resolveBy('requeue', options)
  let left = checkWhole('limit', request.limit ?? REQUEUE_LIMIT_DEFAULT, 1, REQUEUE_LIMIT_MAX)
  let requeued = 0
  const refused: Refused[] = []
  let before: string | null = null
  do {
    const page = await store.list({ filter, limit: Math.min(left, PAGE_MAX), before })
    const ids = page.jobs.map((job) => job.id)
    for (const result of ids.length === 0 ? [] : await store.requeue(ids, by)) {
      if (result.result === 'requeued') requeued++
      else if (result.result === 'refused') refused.push(result)
    }
    left -= ids.length
    before = page.next
  } while (before !== null && left > 0)
  return {
    requeued,
    refused: refused.map(({ id, state, heldBy = null }) => ({ id, state, heldBy })),
    more: before !== null,
  }
}

function deadOnly(filter: RequeueMany['filter']): JobFilter {
  if (typeof filter !== 'string') {
    checkKeys('filter', filter, ['queue', 'type', 'tag', 'group'])
    return { ...resolveFilter(filter), states: ['dead'] }
  }
  const { states = ['dead'], ...others } = readFilter(filter)
  if (states.every((state) => state === 'dead')) return { ...others, states }
  throw invalidOption(`requeue is for dead jobs, the filter asks for ${states.join(', ')}`)
}

/** What may be changed of a job that waits. */
export interface UpdateOptions {
  readonly priority?: number
  /** A new time; null for immediately. Not together with `delay`. */
  readonly runAt?: Date | string | null
  /** A new time, this long from now. Not together with `runAt`. */
  readonly delay?: Duration
  /** Replaces the payload; of the version the job was enqueued with. Without `job` it is not checked until the job runs. */
  readonly payload?: unknown
  /** The job's definition, which the payload is checked against. Raises `wrong_state` for a job of another type, or one that was
   *  enqueued with another version of the definition. */
  readonly job?: JobDefinition
}

/** Changing a job whose definition says what its payload is. */
export interface TypedUpdateOptions<Payload> extends Omit<UpdateOptions, 'job' | 'payload'> {
  readonly job: JobDefinition<Payload, unknown, unknown, unknown>
  readonly payload?: NoInfer<Payload>
}

/** Where the job stands after a change. */
export interface Updated {
  readonly id: string
  readonly state: JobState
  /** When it may run, in milliseconds from now; null when its time was not changed. */
  readonly dueInMs: number | null
}

export async function update(
  store: OperatorStore & Pick<JobStore, 'get'>,
  id: string,
  changes: UpdateOptions,
  { by, payloadBytesMax }: { readonly by: string; readonly payloadBytesMax: number },
): Promise<Updated> {
  checkId('id', id)
  checkKeys('update', changes, ['priority', 'runAt', 'delay', 'payload', 'job'])
  const { job, ...others } = changes
  if (Object.values(others).every((change) => change === undefined)) {
    throw invalidOption('update needs something to change: priority, runAt, delay or payload')
  }
  if (changes.runAt !== undefined && changes.delay !== undefined) {
    throw invalidOption('runAt and delay both say when the job may run: give one of them')
  }
  const checked: JobChanges = {
    ...(changes.priority === undefined ? {} : { priority: checkPriority(changes.priority) }),
    ...(changes.payload === undefined ? {} : { payload: await encodeUpdate(store, id, changes, payloadBytesMax) }),
  }
  const timed = changes.runAt !== undefined || changes.delay !== undefined
  const nowMs = timed ? await store.now() : 0
  const runAtMs = timed ? resolveTime(changes, nowMs) : undefined
  const result = await store.update(id, runAtMs === undefined ? checked : { ...checked, runAtMs }, by)
  if (result.result !== 'updated') {
    throw refusal(result, { verb: 'changed', only: 'a job that waits (blocked, scheduled, ready, retrying) can be' })
  }
  return { id, state: result.state, dueInMs: timed ? Math.max(0, (runAtMs ?? nowMs) - nowMs) : null }
}

/** The new payload as JSON text, checked against the definition where one is given. */
async function encodeUpdate(
  store: OperatorStore & Pick<JobStore, 'get'>,
  id: string,
  { job, payload }: UpdateOptions,
  payloadBytesMax: number,
): Promise<string> {
  if (job === undefined) return encodePayload(id, payload, payloadBytesMax)
  const { type, version } = startingTerms(job)
  const text = await encodeChecked(job, payload, payloadBytesMax)
  // Neither ever changes, so the job may go on meanwhile.
  const known = await store.get(id)
  if (known === null || (known.type === type && known.version === version)) return text
  throw new HoldfastError(
    'wrong_state',
    `job ${id} cannot take a payload of "${type}" at version ${version}: it is of "${known.type}" at version ${known.version}`,
    { details: { id, type: known.type, version: known.version } },
  )
}

function resolveTime({ runAt, delay }: UpdateOptions, nowMs: number): number | null {
  if (delay !== undefined) return nowMs + durationMs(delay, { name: 'delay' })
  return runAt === null ? null : checkDate('runAt', runAt).getTime()
}

/** What a queue sets for the jobs in it that set nothing themselves. */
export interface QueueOptions extends LimitOptions, QueueFlowOptions {
  /** How long its finished jobs are kept. Default: the retention of the process that prunes. Whole days are dropped when the longest
   *  retention of all queues is over; jobs of the others are removed one by one before that, which costs more. */
  readonly retention?: Duration
  /** In a Redis Cluster: over how many shards its new jobs are spread, from 1 to 16. For a queue with more jobs than one server takes. Its order
   *  is then by shard, and it can have no flow control of its own. Default: as it is, 1 for a new queue. See docs/redis.md#one-hot-queue. */
  readonly spread?: number
}

/** Checks a queue's settings and gives them in the form stores keep. `parts`: over how many a queue of this store can be spread. */
export function resolveQueueSettings(options: QueueOptions, parts: number = 1): QueueSettings {
  checkKeys('setQueue', options, [...LIMIT_OPTIONS, ...QUEUE_FLOW_OPTIONS, 'retention', 'spread'])
  const { retention, spread } = options
  const flow = resolveQueueFlow(options)
  if (spread !== undefined) checkSpread(spread, parts, flow !== undefined)
  return {
    limits: resolveLimitOptions(options),
    ...(retention === undefined ? {} : { retentionMs: durationMs(retention, { name: 'retention' }) }),
    ...(flow === undefined ? {} : { flow }),
    ...(spread === undefined || parts === 1 ? {} : { spread }),
  }
}

function checkSpread(spread: number, parts: number, hasFlow: boolean): void {
  checkWhole('spread', spread, 1, SPREAD_MAX)
  if (spread === 1) return
  if (parts === 1) {
    throw new HoldfastError(
      'unsupported',
      `a queue can be spread over shards in a Redis Cluster alone, got spread: ${spread}: leave it out, or connect to redis+cluster://…`,
    )
  }
  if (hasFlow) throw spreadWithFlow(`got spread: ${spread}`)
}

/** The id to requeue, or the many to; raises `invalid_option` for what is neither. */
export function isRequeueMany(value: string | RequeueMany): value is RequeueMany {
  if (typeof value === 'object' && value !== null) return true
  if (typeof value === 'string') return false
  throw invalidOption(`requeue takes a job's id or { filter, limit }`, value)
}

/** What was asked, and which jobs it is for. */
interface Asked {
  /** As in "cannot be …". */
  readonly verb: string
  /** Completes "only …", what to do instead included. */
  readonly only: string
}

/** `wrong_state`, `job_not_found` or `key_conflict`. */
export function refusal(result: Refused | Missing, { verb, only }: Asked): HoldfastError {
  const { id } = result
  if (result.result === 'missing') {
    return new HoldfastError('job_not_found', `there is no job ${id}: it never existed, or was pruned`, {
      details: { id },
    })
  }
  const { state, heldBy } = result
  if (heldBy === null) {
    return new HoldfastError(
      'key_conflict',
      `job ${id} cannot be ${verb} at this moment: a transaction that has not ended holds its idempotency key; end it, and try again`,
      { retryable: true, details: { id, state, heldBy } },
    )
  }
  if (heldBy !== undefined) {
    return new HoldfastError(
      'key_conflict',
      `job ${id} cannot be ${verb}: job ${heldBy} has taken its idempotency key since; wait for that one or cancel it`,
      { details: { id, state, heldBy } },
    )
  }
  return new HoldfastError('wrong_state', `job ${id} cannot be ${verb}: it is ${already(state)}; only ${only}`, {
    details: { id, state },
  })
}

function already(state: JobState): string {
  return isFinished(state) ? `${state} already` : state
}
