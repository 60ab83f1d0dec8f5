// Samples of everything a store is given, complete and plain, so that a fact names only what it is about.

import type { Settlement } from '../../core/decide.js'
import { idMaker } from '../../core/id.js'
import { type ClaimedJob, type JobNote, type Lease, leaseOf, type NewJob, type SettledJob } from '../../core/job.js'
import type { StoredError } from '../../core/json.js'
import type { Schedule } from '../../core/schedule.js'
import type { DeadReason } from '../../core/states.js'
import type { WorkerBeat } from '../../core/views.js'
import { seededRandom } from '../seeded-random.js'

/** When every fact begins: noon, so that none crosses midnight by accident. */
export const START_MS: number = Date.UTC(2026, 2, 1, 12)
export const SECOND_MS = 1_000
export const MINUTE_MS = 60_000
export const DAY_MS = 86_400_000
export const LEASE_MS = 30_000
export const QUEUE = 'email'
export const WORKER = 'worker-a'
export const OPERATOR = 'ada'

const random = seededRandom(2026)
const nextId = idMaker(() => START_MS, random)

/** An id of the first day, larger than all before it. */
export function newId(): string {
  return nextId()
}

/** An id made at a time. */
export function idAt(ms: number): string {
  return idMaker(() => ms, random)()
}

/** A job that may run immediately. */
export function newJob(changes: Partial<NewJob> = {}): NewJob {
  return {
    id: newId(),
    queue: QUEUE,
    type: 'send_email',
    payload: '{"to":"grace@example.com"}',
    version: 1,
    priority: 0,
    when: null,
    limits: {},
    idempotencyKey: null,
    after: [],
    onParentDead: 'cancel',
    tags: [],
    trace: null,
    ...changes,
  }
}

/** Several such jobs. */
export function newJobs(count: number, changes: Partial<NewJob> = {}): NewJob[] {
  return Array.from({ length: count }, () => newJob(changes))
}

/** A key that is held until its job is finished, or for `ttlMs`. */
export function keyed(key: string, ttlMs: number | null = null): Pick<NewJob, 'idempotencyKey'> {
  return { idempotencyKey: { key, ttlMs } }
}

export const FAILURE: StoredError = { name: 'Error', message: 'the mail server is down' }

/** What a settlement says about the job it ends the lease of. */
type HeldJob = Pick<ClaimedJob, 'id' | 'fence' | 'queue' | 'attempt' | 'crashes' | 'idempotencyKey' | 'flow'>

function settled(job: HeldJob, settlement: Settlement, changes: Partial<SettledJob>): SettledJob {
  const { id, fence, queue, idempotencyKey, flow } = job
  const plain = { id, fence, queue, settlement, result: null, error: null, ranMs: 5, idempotencyKey }
  return { ...plain, ...(flow === undefined ? {} : { flow }), ...changes }
}

export function succeeded(job: HeldJob, changes: Partial<SettledJob> = {}): SettledJob {
  return settled(job, { state: 'succeeded', attempt: job.attempt, crashes: job.crashes }, changes)
}

export function cancelled(job: HeldJob, changes: Partial<SettledJob> = {}): SettledJob {
  return settled(job, { state: 'cancelled', attempt: job.attempt, crashes: job.crashes }, changes)
}

/** The attempt failed and the next one comes after `delayMs`. */
export function retrying(job: HeldJob, delayMs: number = SECOND_MS, changes: Partial<SettledJob> = {}): SettledJob {
  const settlement: Settlement = { state: 'retrying', attempt: job.attempt, crashes: job.crashes, delayMs }
  return settled(job, settlement, { error: FAILURE, ...changes })
}

/** The attempt is given back and the job waits for `delayMs`. */
export function snoozed(job: HeldJob, delayMs: number = SECOND_MS, changes: Partial<SettledJob> = {}): SettledJob {
  return settled(job, { state: 'scheduled', attempt: job.attempt - 1, crashes: job.crashes, delayMs }, changes)
}

/** The attempt is given back and the job with it. */
export function released(job: HeldJob, changes: Partial<SettledJob> = {}): SettledJob {
  return settled(job, { state: 'ready', attempt: job.attempt - 1, crashes: job.crashes }, changes)
}

export function dead(job: HeldJob, changes: Partial<SettledJob> & { readonly reason?: DeadReason } = {}): SettledJob {
  const { reason = 'attempts', ...rest } = changes
  return settled(
    job,
    { state: 'dead', attempt: job.attempt, crashes: job.crashes, reason },
    { error: FAILURE, ...rest },
  )
}

/** The worker was lost: one crash more, and a retry. */
export function crashed(job: HeldJob, delayMs: number = SECOND_MS): SettledJob {
  return retrying({ ...job, crashes: job.crashes + 1 }, delayMs, { ranMs: null })
}

/** A lease no claim of the job has had. */
export function stale(lease: Lease): Lease {
  return { ...leaseOf(lease), fence: lease.fence - 1 }
}

export function newNote(lease: Lease, changes: Partial<JobNote> = {}): JobNote {
  return { ...leaseOf(lease), progress: null, logs: [], ...changes }
}

/** A schedule for each full hour. */
export function newSchedule(changes: Partial<Schedule> = {}): Schedule {
  return {
    name: 'nightly',
    cron: '0 * * * *',
    zone: 'UTC',
    queue: QUEUE,
    type: 'send_report',
    payload: '{"report":"sales"}',
    version: 1,
    priority: 0,
    limits: {},
    tags: [],
    catchUp: 'latest',
    catchUpMax: 10,
    overlap: 'allow',
    ...changes,
  }
}

export function newBeat(changes: Partial<WorkerBeat> = {}): WorkerBeat {
  return {
    id: WORKER,
    host: 'mail-1',
    pid: 4711,
    queues: [QUEUE],
    concurrency: 10,
    running: 2,
    draining: false,
    version: '1.2.3',
    types: ['send_email'],
    jobs: [],
    children: null,
    ...changes,
  }
}
