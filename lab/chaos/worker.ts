// A worker process of a chaos run: it takes jobs, with or without children, and faults on command.

import { isHoldfastError } from '../../src/core/errors.js'
import type { Store } from '../../src/core/store.js'
import { type Holdfast, openHoldfast } from '../../src/holdfast.js'
import { openStore } from './open-store.js'
import type { WorkerOrder, WorkerReady, WorkerSetup } from './work.js'

// Enough for the load, soon too little for a handler that leaks.
const CHILD_MIB = 160
const HANDLERS = new URL('./handlers.js', import.meta.url)

const setup = JSON.parse(process.argv[2]!) as WorkerSetup
// Its children have it too.
process.env.HOLDFAST_CHAOS_SETUP = process.argv[2]!
const { handlers, orders, recorder } = await import('./handlers.js')

process.on('message', (order: WorkerOrder) => {
  if (order.order === 'block') Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, order.ms)
  if (order.order === 'die after effect') orders.diesAfterEffect = true
  if (order.order === 'kill child') killChild()
  if (order.order === 'dependency') orders.isDown = order.isDown
})
// The run is over when its parent ends.
process.on('disconnect', () => process.exit(1))

const holdfast = await connectWhenUp()
const children = new Set<number>()
holdfast.on((event) => {
  if (event.name === 'child.started' && event.pid !== null) children.add(event.pid)
  if (event.name === 'child.ended' && event.pid !== null) children.delete(event.pid)
})
const worker = holdfast.worker({
  ...{ handlers, queues: [...setup.queues], module: HANDLERS, processes: setup.processes, childMemory: CHILD_MIB },
  ...{ concurrency: setup.concurrency, prefetch: setup.prefetch, lease: setup.leaseMs, drain: '1500ms', pollMax: '1s' },
})
let signals = 0
process.on('SIGTERM', () => {
  signals++
  if (signals > 1) process.exit(143)
  void holdfast.close().then(() => process.exit(0))
})
await worker.start()
process.send?.({ worker: worker.id } satisfies WorkerReady)

/** Kills one of the children; waits until there is one. */
function killChild(): void {
  const [pid] = children
  if (pid === undefined) setTimeout(killChild, 50)
  else process.kill(pid, 'SIGKILL')
}

/** A process may be started while the server is away, or not yet the primary; a supervisor would start it again and
 *  again. */
async function connectWhenUp(): Promise<Holdfast> {
  for (;;) {
    try {
      const store = await openStore(setup)
      return await openHoldfast(reportingRepairs(store), { name: setup.name, upkeep: { hold: '3s' } })
    } catch (error) {
      if (!isHoldfastError(error, 'store_unavailable') && !isHoldfastError(error, 'store_read_only')) throw error
      await new Promise((resolve) => setTimeout(resolve, 200))
    }
  }
}

/** The store, with a line in the record for groups that it found forgotten. */
function reportingRepairs(store: Store): Store {
  const promote = async (limit: number) => {
    const promotion = await store.promote(limit)
    if (promotion.repaired !== undefined) recorder.write({ ev: 'flow.repaired', count: promotion.repaired })
    return promotion
  }
  return { ...store, promote }
}
