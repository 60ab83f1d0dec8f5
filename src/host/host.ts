// Host mode: this process has the store's client and every loop of the worker, children run the handlers. The end of a child is known immediately,
// and its jobs are settled through the store under their fences, so they run again in milliseconds instead of after their leases.
//
//   channel.ts     the way to a child: a process or a thread
//   child.ts       one child, the calls it has in hand, and who is blamed for its end
//   pool.ts        the children of one kind: started, replaced, started again
//   child-main.ts  the program of a child: child-run.ts runs a job there, with a context of its own (child-context.ts)
//   asks.ts        what handlers there ask the worker for, as enqueue, steps and transactions; answers.ts is the worker's side

import type { Isolate } from '../core/definition.js'
import type { Emit } from '../core/events.js'
import type { Ports } from '../core/ports.js'
import type { ChildrenView } from '../core/views.js'
import type { HeldJob } from '../worker/held-job.js'
import type { Isolation, RemoteContext, RemoteEnd } from '../worker/isolation.js'
import { type Call, pauseClock } from './child.js'
import type { HostSettings } from './options.js'
import { Pool } from './pool.js'

/** Runs the handlers of one worker in children. */
export class Host implements Isolation {
  readonly #settings: HostSettings
  readonly #ports: Ports
  readonly #pools: ReadonlyMap<Isolate, Pool>
  #seq = 0

  constructor(deps: { readonly ports: Ports; readonly emit: Emit }, settings: HostSettings) {
    this.#settings = settings
    this.#ports = deps.ports
    const kinds = new Set(settings.isolated.values())
    this.#pools = new Map([...kinds].map((isolate) => [isolate, new Pool({ ...deps, isolate, settings })]))
  }

  isolates(type: string): boolean {
    return this.#settings.isolated.has(type)
  }

  async start(): Promise<void> {
    try {
      await Promise.all([...this.#pools.values()].map((pool) => pool.start()))
    } catch (error) {
      await this.stop()
      throw error
    }
  }

  run(held: HeldJob, context: RemoteContext, onLateStart: () => void): Promise<RemoteEnd> {
    const pool = this.#pools.get(this.#settings.isolated.get(held.job.type)!)!
    return new Promise((resolve) => {
      const end = (ended: RemoteEnd) => {
        held.remote = null
        resolve(ended)
      }
      const sinceMs = this.#ports.clock.monotonic()
      const call: Call = {
        seq: ++this.#seq,
        held,
        context,
        sinceMs,
        end,
        onLateStart,
        isLate: false,
        child: null,
        hasBegun: false,
      }
      let isKilled = false
      held.remote = {
        abort: () => (call.child === null ? pool.remove(call) : call.child.abort(call)),
        kill: () => {
          if (isKilled) return false
          isKilled = true
          if (call.child === null) pool.remove(call)
          else call.child.killStuck(call)
          return true
        },
      }
      pool.add(call)
      if (call.child === null) pauseClock(call)
    })
  }

  get children(): ChildrenView {
    let [running, restarts] = [0, 0]
    for (const pool of this.#pools.values()) {
      running += pool.running
      restarts += pool.restarts
    }
    return { running, restarts }
  }

  async stop(): Promise<void> {
    await Promise.all([...this.#pools.values()].map((pool) => pool.stop()))
  }
}
