// One claimed job from its slot to its settlement, as named steps:
// runJob → readPayload → check → callHandler → resolved | rejected → conclude → end.
// Each step calls the next or concludes. No error of a handler, a schema or a payload leaves this file. ◄── slots.ts · next: ../core/decide.ts

import { decide, decideBeforeRun, type Outcome, type Settlement } from '../core/decide.js'
import type { JobContext, JobDefinition } from '../core/definition.js'
import { HoldfastError } from '../core/errors.js'
import type { Emit } from '../core/events.js'
import type { JobStore } from '../core/job-store.js'
import { encodeError, encodeResult, type StoredError } from '../core/json.js'
import { type Checked, checkPayload, upgradePayload } from '../core/payload.js'
import type { Clock } from '../core/ports.js'
import type { JobTracer } from '../core/tracer.js'
import { RunContext } from './context.js'
import { callWithJob } from './current-job.js'
import type { HeldJob } from './held-job.js'
import type { Isolation, RemoteEnd } from './isolation.js'
import type { KeepingOf } from './keeping.js'
import { type FlowEnd, heldWith, type LimitReports, settledWith } from './limit-reports.js'
import { readThrown } from './outcome.js'
import type { StoreTime } from './store-time.js'

/** What all running jobs of a worker share. */
export interface RunScope {
  readonly store: JobStore
  readonly clock: Clock
  readonly storeTime: StoreTime
  readonly emit: Emit
  readonly hasListeners: () => boolean
  readonly random: () => number
  readonly tracer: JobTracer | null
  /** The connection that the worker was made by; null where there is none, as in tests of the worker alone. */
  readonly holdfast: JobContext['holdfast'] | null
  /** Writes what jobs keep between attempts. */
  readonly keeping: KeepingOf
  /** Counts how jobs that name limits end. */
  readonly limitReports: Pick<LimitReports, 'ended'>
  /** Where isolated handlers run; null when all run in this thread. */
  readonly isolation: Isolation | null
  /** A handler that called complete() has ended, by throwing when there is a `failure`: asks the store what became of its transaction. */
  readonly onCompleting: (held: HeldJob, failure: { readonly thrown: unknown } | null) => void
  /** The handler of a job starts only now: its time counts from here. */
  readonly onLateStart: (held: HeldJob) => void
  /** The store said that a lease no longer holds. */
  readonly onLost: (held: HeldJob) => void
  /** Called once for each job when its settlement is known, or when it needs none. */
  readonly onEnded: (held: HeldJob) => void
}

// Long enough that the job does not come back in a tight loop, short enough for a newer worker that is just starting.
const NEWER_VERSION_DELAY_MS = 10_000

/** Runs a job that has a slot. Returns immediately; the scope's `onEnded` is called when it is over. */
export function runJob(held: HeldJob, scope: RunScope): void {
  const dead = decideBeforeRun(held, scope.storeTime.nowMs())
  if (dead !== null) {
    end(held, scope, { settlement: dead, outcome: 'reason' in dead ? dead.reason : dead.state })
    return
  }
  const definition = held.handler.definition as JobDefinition
  if (held.job.version > definition.version) {
    conclude(held, scope, { kind: 'released', delayMs: NEWER_VERSION_DELAY_MS })
    return
  }
  // Its payload is read and checked where it runs.
  if (isIsolated(held, scope)) {
    callHandler(held, scope, null)
    return
  }
  let payload: unknown
  try {
    payload = readPayload(held, definition)
  } catch (error) {
    conclude(held, scope, { kind: 'invalid' }, { error: encodeError(error) })
    return
  }
  check(held, scope, definition, payload)
}

function readPayload(held: HeldJob, definition: JobDefinition): unknown {
  const payload: unknown = JSON.parse(held.job.payload)
  return held.job.version === definition.version ? payload : upgradePayload(definition, held.job.version, payload)
}

function check(held: HeldJob, scope: RunScope, definition: JobDefinition, payload: unknown): void {
  if (definition.schema === null) {
    callHandler(held, scope, payload)
    return
  }
  // A schema that throws says nothing about the payload: the attempt failed, and another may not.
  try {
    const answer = checkPayload(definition, payload)
    if (answer instanceof Promise) {
      answer.then(
        (late) => checked(held, scope, late),
        (error) => rejected(held, scope, error),
      )
    } else checked(held, scope, answer)
  } catch (error) {
    rejected(held, scope, error)
  }
}

function checked(held: HeldJob, scope: RunScope, answer: Checked): void {
  if ('value' in answer) {
    callHandler(held, scope, answer.value)
    return
  }
  const error = new HoldfastError(
    'invalid_payload',
    `the payload of "${held.job.type}" does not fit: ${answer.problem}`,
  )
  conclude(held, scope, { kind: 'invalid' }, { error: encodeError(error) })
}

function callHandler(held: HeldJob, scope: RunScope, payload: unknown): void {
  // Given up, or told to stop, while an asynchronous schema was checking: the handler is not called.
  if (held.phase === 'ended') return
  if (held.abortReason !== null) {
    rejected(held, scope, held.abortReason)
    return
  }
  held.phase = 'running'
  held.hasRun = true
  if (scope.hasListeners()) {
    const { id, type, queue, attempt } = held.job
    scope.emit({ name: 'job.started', id, type, queue, attempt, waitMs: waitMsOf(held, scope) })
  }
  const context = new RunContext(held, scope, rejected)
  const call = () => {
    if (!isIsolated(held, scope)) return callWithJob(held.handler.run, payload, context)
    return scope.isolation!.run(held, context, () => scope.onLateStart(held))
  }
  try {
    const returned =
      scope.tracer === null ? call() : scope.tracer.run(held.job, { context, waitMs: waitMsOf(held, scope) }, call)
    if (isThenable(returned)) {
      Promise.resolve(returned).then(
        (value) => resolved(held, scope, value),
        (error) => rejected(held, scope, error),
      )
    } else resolved(held, scope, returned)
  } catch (error) {
    rejected(held, scope, error)
  }
}

/** How long a job has waited for its first attempt, by the store's clock. */
function waitMsOf({ job, startedMs }: HeldJob, { storeTime }: RunScope): number | null {
  return job.attempt === 1 ? Math.max(0, storeTime.at(startedMs) - job.createdAtMs) : null
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function'
}

function resolved(held: HeldJob, scope: RunScope, value: unknown): void {
  if (held.phase === 'ended' || held.keeper?.isBusy(() => resolved(held, scope, value))) return
  const remote = isIsolated(held, scope) ? (value as RemoteEnd) : null
  if (remote !== null && remote.verdict !== null) rejected(held, scope, remote)
  else if (held.isCompleting) scope.onCompleting(held, null)
  else if (held.isLost) letGo(held, scope)
  else if (held.parked !== null) concludeThrown(held, scope, held.parked)
  else conclude(held, scope, { kind: 'succeeded' }, { result: remote === null ? encodeResult(value) : remote.result })
}

function rejected(held: HeldJob, scope: RunScope, thrown: unknown): void {
  if (held.phase === 'ended' || held.keeper?.isBusy(() => rejected(held, scope, thrown))) return
  if (held.isCompleting) scope.onCompleting(held, { thrown })
  else if (held.isLost) letGo(held, scope)
  else concludeThrown(held, scope, held.parked ?? thrown)
}

/** Ends an attempt whose handler threw. */
export function concludeThrown(held: HeldJob, scope: RunScope, thrown: unknown): void {
  held.thrown = thrown
  const { outcome, error, ...flow } = readThrown(held, thrown, isIsolated(held, scope))
  conclude(held, scope, outcome, { error, flow })
}

function isIsolated({ job }: HeldJob, { isolation }: RunScope): boolean {
  return isolation?.isolates(job.type) === true
}

/** Ends an attempt with an outcome: decides what becomes of the job and hands the settlement on. Counts once. */
export function conclude(
  held: HeldJob,
  scope: RunScope,
  outcome: Outcome,
  kept: Omit<End, 'settlement' | 'outcome'> = {},
): void {
  if (held.phase === 'ended') return
  const settlement = decide(held, outcome, scope.storeTime.nowMs(), scope.random)
  end(held, scope, { settlement, outcome: outcome.kind, ...kept })
}

/** Ends an attempt without a settlement: its lease is gone, or the store has settled it or alone knows how. Counts once. */
export function letGo(held: HeldJob, scope: RunScope, outcome: 'lost' | 'succeeded' = 'lost'): void {
  if (held.phase !== 'ended') end(held, scope, { settlement: null, outcome })
}

interface End {
  /** Null when there is nothing to settle: the lease is gone. */
  readonly settlement: Settlement | null
  readonly outcome: string
  readonly result?: string | null
  readonly error?: StoredError | null
  readonly flow?: FlowEnd
}

function end(held: HeldJob, scope: RunScope, { settlement, outcome, result = null, error = null, flow }: End): void {
  held.phase = 'ended'
  const ranMs = held.hasRun ? Math.round(scope.clock.monotonic() - held.startedMs) : null
  const { id, fence, queue, type, attempt, idempotencyKey } = held.job
  if (settlement !== null)
    held.settled = settledWith({ id, fence, queue, settlement, result, error, ranMs, idempotencyKey }, held, flow)
  scope.limitReports.ended(held.job, outcome, flow === undefined ? undefined : { ...flow, ranMs })
  if (scope.hasListeners()) {
    const ended = { outcome, ranMs, error: error?.message ?? null, ...heldWith(outcome, flow) }
    scope.emit({ name: 'job.ended', id, type, queue, attempt, ...ended })
  }
  if (scope.tracer !== null && held.hasRun) scope.tracer.ended(held.job, { outcome, errorName: error?.name ?? null })
  scope.onEnded(held)
}
