// One claimed job from its slot to its settlement, as named steps:
// mayRun → readPayload → checked → callHandler → resolved | rejected → conclude.
// Each step either hands on to the next or concludes; nothing a handler, a schema or a payload does escapes from here.

import { decide, decideBeforeRun, type Outcome, type Settlement } from '../core/decide.js'
import type { JobDefinition } from '../core/definition.js'
import { HoldfastError } from '../core/errors.js'
import { encodeError, encodeResult, type StoredError } from '../core/json.js'
import { type Checked, checkPayload, upgradePayload } from '../core/payload.js'
import { RunContext, type RunScope } from './context.js'
import { callWithJob } from './current-job.js'
import type { HeldJob } from './held-job.js'
import { RemoteEnd } from './isolation.js'
import { classifyThrown } from './outcome.js'

// Long enough not to go round in circles, short enough for a newer worker that is just starting.
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
  if (scope.isolation?.isolates(definition.type) === true) {
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
  // Given up or told to stop while an asynchronous schema was at work: the handler never sees it.
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
    if (scope.isolation?.isolates(held.job.type) === true) {
      return scope.isolation.run(held, context, () => scope.onLateStart(held))
    }
    return callWithJob(held.handler.run, payload, context)
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
  if (held.phase === 'ended') return
  const remote = isIsolated(held, scope) ? (value as RemoteEnd) : null
  if (remote !== null && remote.verdict !== null) rejected(held, scope, remote)
  else if (held.isCompleting) void confirmCompletion(held, scope, null)
  else if (held.isLost) letGo(held, scope)
  else conclude(held, scope, { kind: 'succeeded' }, { result: remote === null ? encodeResult(value) : remote.result })
}

function rejected(held: HeldJob, scope: RunScope, thrown: unknown): void {
  if (held.phase === 'ended') return
  if (held.isCompleting) void confirmCompletion(held, scope, { thrown })
  else if (held.isLost) letGo(held, scope)
  else concludeThrown(held, scope, thrown)
}

function isIsolated({ job }: HeldJob, { isolation }: RunScope): boolean {
  return isolation?.isolates(job.type) === true
}

function concludeThrown(held: HeldJob, scope: RunScope, thrown: unknown): void {
  const definition = held.handler.definition as JobDefinition
  // Nothing that a handler in this thread threw is touched here: it may throw at every touch.
  const remote = isIsolated(held, scope) && thrown instanceof RemoteEnd ? thrown.verdict : null
  const verdict = remote ?? classifyThrown(thrown, definition)
  if (held.abortCause === 'cancelled') {
    conclude(held, scope, { kind: 'cancelled' })
  } else if (held.abortCause === 'timed_out') {
    const outcome = { kind: 'failed', retryable: true, delayMs: null } as const
    conclude(held, scope, outcome, { error: encodeError(held.abortReason) })
  } else if (held.abortCause === 'shutdown' && !verdict.isControl) {
    // It threw because it was told to stop. That is not the job's fault.
    conclude(held, scope, { kind: 'released', delayMs: 0 })
  } else {
    conclude(held, scope, verdict.outcome, { error: verdict.error })
  }
}

/** Asks the store whether the handler's own transaction settled the job, for as long as the job has its slot. */
async function confirmCompletion(held: HeldJob, scope: RunScope, failure: { thrown: unknown } | null): Promise<void> {
  const fate = await scope.fateOf(held)
  if (held.phase === 'ended') return
  if (fate === 'settled') {
    end(held, scope, { settlement: null, outcome: 'succeeded' })
    emitCompleted(held, scope)
    return
  }
  if (fate === 'lost') {
    // Its transaction was rolled back, and by then the lease had run out: the job belongs to another run.
    held.isCompleting = false
    scope.onLost(held)
    letGo(held, scope)
    return
  }
  held.isCompleting = false
  concludeThrown(held, scope, failure === null ? notCommitted(held) : failure.thrown)
}

function emitCompleted(held: HeldJob, scope: RunScope): void {
  if (!scope.hasListeners()) return
  const { id, type, queue } = held.job
  scope.emit({ name: 'job.settled', id, type, queue, state: 'succeeded', reason: null, delayMs: null })
}

function notCommitted(held: HeldJob): HoldfastError {
  return new HoldfastError(
    'lease_lost',
    `the handler of "${held.job.type}" called complete() but its transaction was not committed when the handler ended: await the commit before returning`,
  )
}

/** Ends an attempt with an outcome: decides what becomes of the job and hands the settlement on. Counts once. */
export function conclude(
  held: HeldJob,
  scope: RunScope,
  outcome: Outcome,
  kept: { readonly result?: string | null; readonly error?: StoredError | null } = {},
): void {
  if (held.phase === 'ended') return
  const settlement = decide(held, outcome, scope.storeTime.nowMs(), scope.random)
  end(held, scope, { settlement, outcome: outcome.kind, ...kept })
}

/** Ends an attempt without a settlement: its lease is gone, or the store alone knows what became of it. Counts once. */
export function letGo(held: HeldJob, scope: RunScope): void {
  if (held.phase !== 'ended') end(held, scope, { settlement: null, outcome: 'lost' })
}

interface End {
  /** Null when there is nothing to settle: the lease is gone. */
  readonly settlement: Settlement | null
  readonly outcome: string
  readonly result?: string | null
  readonly error?: StoredError | null
}

function end(held: HeldJob, scope: RunScope, { settlement, outcome, result = null, error = null }: End): void {
  held.phase = 'ended'
  const ranMs = held.hasRun ? Math.round(scope.clock.monotonic() - held.startedMs) : null
  const { id, fence, queue, type, attempt, idempotencyKey } = held.job
  if (settlement !== null) held.settled = { id, fence, queue, settlement, result, error, ranMs, idempotencyKey }
  if (scope.hasListeners()) {
    scope.emit({ name: 'job.ended', id, type, queue, attempt, outcome, ranMs, error: error?.message ?? null })
  }
  if (scope.tracer !== null && held.hasRun) scope.tracer.ended(held.job, { outcome, errorName: error?.name ?? null })
  scope.onEnded(held)
}
