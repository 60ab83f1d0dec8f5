// The end of a handler that settled its job in its own transaction: only the store knows whether that committed. ◄── run.ts

import { Contact } from '../core/contact.js'
import { HoldfastError } from '../core/errors.js'
import { type Lease, leaseOf } from '../core/job.js'
import { type Ports, sleep } from '../core/ports.js'
import type { HeldJob } from './held-job.js'
import { concludeThrown, letGo, type RunScope } from './run.js'

interface Completion {
  readonly ports: Ports
  /** What the handler threw, if it did. */
  readonly failure: { readonly thrown: unknown } | null
  readonly isStopped: () => boolean
}

/** Asks the store whether the handler's own transaction settled the job, for as long as the job has its slot. */
export async function confirmCompletion(held: HeldJob, scope: RunScope, completion: Completion): Promise<void> {
  const fate = await fateOf(held, scope, completion)
  if (held.phase === 'ended') return
  if (fate === 'settled') {
    letGo(held, scope, 'succeeded')
    if (!scope.hasListeners()) return
    const { id, type, queue } = held.job
    scope.emit({ name: 'job.settled', id, type, queue, state: 'succeeded', reason: null, delayMs: null })
    return
  }
  held.isCompleting = false
  if (fate === 'lost') {
    // Its transaction was rolled back, and by then the lease had run out: the job belongs to another run.
    scope.onLost(held)
    letGo(held, scope)
    return
  }
  const { failure } = completion
  concludeThrown(held, scope, failure === null ? notCommitted(held) : failure.thrown)
}

/** What the store knows of a lease; asks until it answers. */
async function fateOf(
  lease: Lease,
  { store, emit }: RunScope,
  { ports, isStopped }: Completion,
): Promise<'held' | 'settled' | 'lost'> {
  const contact = new Contact({ ports, emit }, 'watch')
  for (;;) {
    try {
      const { lost, settled } = await store.watch([leaseOf(lease)])
      contact.found()
      return settled.length > 0 ? 'settled' : lost.length > 0 ? 'lost' : 'held'
    } catch (error) {
      if (isStopped()) return 'held'
      await sleep(ports.timers, contact.lost(error))
    }
  }
}

function notCommitted(held: HeldJob): HoldfastError {
  return new HoldfastError(
    'lease_lost',
    `the handler of "${held.job.type}" called complete() but its transaction was not committed when the handler ended: await the commit before returning`,
  )
}
