// Draining: running what is due, one job after the other, until nothing is left to run. It uses the worker and the upkeep
// that run in production, stepped by hand, so a job behaves here as it does there.

import { checkChoice, checkKeys, checkWhole } from '../core/check.js'
import type { Handler } from '../core/definition.js'
import { HoldfastError } from '../core/errors.js'
import type { HoldfastEvent } from '../core/events.js'
import { isFinished } from '../core/states.js'
import type { Store } from '../core/store.js'
import type { JobView } from '../core/views.js'
import type { Holdfast } from '../holdfast.js'
import type { Upkeep } from '../upkeep/upkeep.js'
import type { Worker } from '../worker/worker.js'
import type { ManualClock } from './manual-clock.js'

const RUNS_MAX_DEFAULT = 10_000

/** How far a drain goes. */
export interface DrainOptions {
  /** 'idle' (the default) runs what is due now, and what becomes ready through it. 'finished' also moves the clock on to
   *  every job that waits for a time, a retry's backoff or its own, until no job with a handler is left. */
  readonly until?: 'idle' | 'finished'
  /** How many jobs run concurrently. Default 1, so that the order is the order of the queue. */
  readonly concurrency?: number
  /** After this many runs the drain gives up with an error: jobs that keep making jobs would never end. Default 10,000. */
  readonly runsMax?: number
}

interface DrainDeps {
  readonly holdfast: Holdfast
  readonly store: Store
  readonly clock: ManualClock
  readonly upkeep: Upkeep
}

/** Runs what is due and resolves with the jobs that finished by it, in that order. */
export async function drain(
  deps: DrainDeps,
  handlers: readonly Handler[],
  options: DrainOptions = {},
): Promise<readonly JobView[]> {
  checkKeys('drain', options, ['until', 'concurrency', 'runsMax'])
  const until = checkChoice('until', options.until ?? 'idle', ['idle', 'finished'])
  const runsMax = checkWhole('runsMax', options.runsMax ?? RUNS_MAX_DEFAULT, 1, 1_000_000)
  const finished: string[] = []
  const listener = (event: HoldfastEvent) => {
    if (event.name === 'job.settled' && isFinished(event.state)) finished.push(event.id)
  }
  const step = stepper(deps, handlers, options.concurrency ?? 1)
  const jobs: JobView[] = []
  const off = deps.holdfast.on(listener)
  try {
    for (let runs = 0; ; ) {
      const ran = await step()
      // Looked at now: when the clock goes on for weeks, upkeep prunes what has finished.
      for (const id of finished.splice(0)) jobs.push((await deps.store.get(id))!)
      runs += ran
      if (runs > runsMax) throw endless(runs)
      if (ran === 0 && !(until === 'finished' && (await goOn(deps)))) return jobs
    }
  } finally {
    off()
  }
}

/** Promotes and fires what is due, then runs what is ready as far as there are slots; resolves with how many ran. */
function stepper({ holdfast, store, upkeep }: DrainDeps, handlers: readonly Handler[], concurrency: number) {
  let worker: Worker | null = null
  let known = ''
  return async (): Promise<number> => {
    await upkeep.tick()
    const queues = (await store.queues()).map(({ name }) => name)
    if (queues.length === 0) return 0
    // Handlers may enqueue into queues that were not there before; a worker's queues are fixed.
    if (worker === null || known !== queues.join()) {
      await worker?.stop()
      // Nothing is claimed ahead, so that a job that is enqueued with a higher priority meanwhile comes first.
      worker = holdfast.worker({ handlers, queues, concurrency, prefetch: 0, name: 'drain', processes: 0 })
      known = queues.join()
    }
    return worker.tick()
  }
}

/** Moves the clock to the next job that waits for a time; false when none does. */
async function goOn({ store, clock }: DrainDeps): Promise<boolean> {
  const { nextDueMs } = await store.promote(1)
  if (nextDueMs === null) return false
  await clock.advance(nextDueMs)
  return true
}

function endless(runs: number): HoldfastError {
  return new HoldfastError(
    'aborted',
    `drain ran ${runs} jobs and there are more: a job that enqueues itself never ends, or raise runsMax`,
  )
}
