// The keeper of a job whose handler runs in this thread: what it keeps goes to the store under the job's lease. ◄── context.ts

import { HoldfastError } from '../core/errors.js'
import type { HeldJob } from './held-job.js'
import { attemptOver, Keeper, type KeeperPort, noWaitInBatch } from './keeper.js'
import { noConnection } from './lookup.js'
import { ParkedJob } from './outcome.js'
import type { RunScope } from './run.js'

/** The keeper of a job in hand, made at its first use. */
export function keeperOf(held: HeldJob, scope: RunScope): Keeper {
  held.keeper ??= new Keeper(keeperPort(held, scope))
  return held.keeper
}

/** What the keeper of a job stands on. */
export function keeperPort(held: HeldJob, scope: RunScope): KeeperPort {
  const lost = (): HoldfastError => {
    scope.onLost(held)
    return leaseLost(held)
  }
  return {
    id: held.id,
    check(what) {
      if (held.parked !== null) throw held.parked
      if (held.abortReason !== null) throw held.abortReason
      if (held.phase === 'ended') throw attemptOver(what, held.id)
    },
    async recall() {
      const recalled = await scope.store.recall(held)
      if (recalled === null) throw lost()
      return recalled
    },
    async keep(entry) {
      if (!(await scope.keeping(held).kept.keep(held, entry))) throw lost()
    },
    async write(offset, text) {
      if (!(await scope.keeping(held).output.write(held, offset, text))) throw lost()
    },
    endings: (ids) => scope.store.endings(ids),
    exists: async (id) => (await scope.store.get(id)) !== null,
    async cancel(ids) {
      if (scope.holdfast === null) throw noConnection('waitForChildren', 'by a worker without a connection')
      const by = `job ${held.id}`
      await Promise.allSettled(ids.map((id) => scope.holdfast!.cancel(id, { by })))
    },
    park(until, delayMs) {
      if (held.handler.batch !== undefined) throw noWaitInBatch(held.job.type)
      held.parked ??= new ParkedJob(until, delayMs)
      throw held.parked
    },
    storeNowMs: () => scope.storeTime.nowMs(),
    nowMs: () => scope.clock.monotonic(),
  }
}

/** What a run gets that no longer has its job. */
export function leaseLost({ id, fence }: HeldJob): HoldfastError {
  return new HoldfastError(
    'lease_lost',
    `job ${id} no longer belongs to this run (fence ${fence}): roll the transaction back`,
    { details: { id, fence } },
  )
}
