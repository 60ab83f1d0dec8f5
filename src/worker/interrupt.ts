// What happens to a job in hand from outside its handler: a cancel, a lost lease, a shutdown, and the end of patience.

import { showMs } from '../core/duration.js'
import { HoldfastError } from '../core/errors.js'
import { encodeError } from '../core/json.js'
import { type Deadlines, GRACE_MS } from './deadlines.js'
import type { HeldJob } from './held-job.js'
import { conclude, letGo, type RunScope } from './run.js'

/** Somebody asked to cancel the job: one that waits never starts, one that runs gets the signal and its grace. */
export function cancelHeld(held: HeldJob, scope: RunScope, deadlines: Deadlines): void {
  if (held.phase === 'waiting') {
    conclude(held, scope, { kind: 'cancelled' })
  } else if (held.abortCause === null && held.phase !== 'ended') {
    deadlines.grace(held)
    held.abort('cancelled', `job ${held.id} was cancelled while it ran`)
  }
}

/** The lease no longer holds: nothing this run writes is accepted any more. */
export function loseHeld(held: HeldJob, scope: RunScope, deadlines: Deadlines): void {
  // A handler that settles in its own transaction ends the lease by that: only `loseCompleting` knows whether it did.
  if (held.isLost || held.isCompleting || held.phase === 'ended') return
  held.isLost = true
  const { id, type, queue, fence } = held.job
  scope.emit({ name: 'lease.lost', id, type, queue, fence })
  if (held.phase === 'waiting') {
    letGo(held, scope)
  } else if (held.abortCause === null) {
    deadlines.grace(held)
    held.abort('lease_lost', `the lease of job ${id} (fence ${fence}) is lost: it ran out, and the job runs elsewhere`)
  }
}

/** The store said that the job of a handler that called complete() was not settled by it: its transaction was rolled back. */
export function loseCompleting(held: HeldJob, scope: RunScope, deadlines: Deadlines): void {
  held.isCompleting = false
  loseHeld(held, scope, deadlines)
}

/** The worker stops: the handler gets the signal, and its worker decides how long to wait. */
export function abortForShutdown(held: HeldJob): void {
  held.abort('shutdown', `the worker is stopping and its drain time is over; job ${held.id} is released`)
}

/**
 * The handler was told to stop and did not. One that runs in a child is ended together with it, and its job is settled after that. Of another
 * the job is settled without it and its slot is free: it may still be running.
 */
export function giveUpStuck(held: HeldJob, scope: RunScope): void {
  if (held.phase === 'ended') return
  const { id, type, queue } = held.job
  scope.emit({ name: 'job.stuck', id, type, queue })
  if (held.remote?.kill() === true) return
  // Whether the handler's own transaction commits is for the store to say.
  if (held.isLost || held.isCompleting) letGo(held, scope)
  else if (held.abortCause === 'cancelled') conclude(held, scope, { kind: 'cancelled' })
  else if (held.abortCause === 'shutdown') conclude(held, scope, { kind: 'released', delayMs: 0 })
  else {
    const error = new HoldfastError(
      'handler_stuck',
      `the handler of "${type}" went on for ${showMs(GRACE_MS)} after it was told to stop (${held.abortReason?.message}): watch ctx.signal`,
    )
    conclude(held, scope, { kind: 'failed', retryable: true, delayMs: null }, { error: encodeError(error) })
  }
}
