// What every process does for all of them, beside its own work:
//
//   promote.ts  timed jobs whose time has come become ready
//   rescue.ts   jobs whose worker is gone are decided about, after living workers had their chance (rescue-hold.ts)
//   fire.ts     ticks of schedules become jobs
//   bulk.ts     actions on many jobs go on, batch by batch
//   sample.ts   how much is where is written down
//   prune.ts    what has run out goes; of the audit log, prune-audit.ts
//
// and horizon.ts and durability.ts watch what the server does to them.
//
// There is no leader: any process may do any step at any time, because each is bounded and doing it twice changes nothing.
// So no process's death stops the others. Each step has its own loop (loop.ts).

import { checkKeys } from '../core/check.js'
import { type Duration, durationMs } from '../core/duration.js'
import type { Emit } from '../core/events.js'
import type { TallySink } from '../core/operating.js'
import type { Ports } from '../core/ports.js'
import type { UpkeepStore } from '../core/upkeep-store.js'
import { stepBulks } from './bulk.js'
import { watchDurability } from './durability.js'
import { Fire } from './fire.js'
import { HorizonWatch } from './horizon.js'
import { jittered, Loop } from './loop.js'
import { Promote } from './promote.js'
import { Prune } from './prune.js'
import { pruneAuditOnce } from './prune-audit.js'
import { Rescue } from './rescue.js'
import { sampleOnce } from './sample.js'

export interface UpkeepOptions {
  /** How long finished jobs are kept where their queue sets nothing longer. Default '7d'. */
  readonly retention?: Duration
  /** How long lines of the audit log are kept. Default '365d'. */
  readonly auditRetention?: Duration
  /** How long rescue waits after an outage, so that living workers can extend their leases first. Default '15s': the
   *  default heartbeat of 10 s and some slack. Raise it with the heartbeat; shorter recovers sooner and may run a job
   *  beside itself for a moment. */
  readonly hold?: Duration
}

const UPKEEP_DEFAULTS = {
  retention: '7d',
  auditRetention: '365d',
  hold: '15s',
} as const satisfies Required<UpkeepOptions>

export interface UpkeepDeps {
  readonly store: UpkeepStore
  readonly ports: Ports
  readonly emit: Emit
  /** Counts what upkeep does. */
  readonly tally?: TallySink
}

/** The upkeep of one process. */
export class Upkeep {
  readonly #deps: UpkeepDeps
  readonly #promoter: Promote
  readonly #promote: Loop
  readonly #rescue: Loop
  readonly #fire: Loop
  readonly #bulk: Loop
  readonly #sample: Loop
  readonly #horizon: Loop
  readonly #durability: Loop
  readonly #prune: Loop
  readonly #pruneAudit: Loop
  readonly #steps: readonly (() => Promise<number>)[]

  /** Checks the options. Nothing runs until `start()`. */
  constructor(deps: UpkeepDeps, options: UpkeepOptions = {}) {
    checkKeys('upkeep', options, ['retention', 'auditRetention', 'hold'])
    const auditRetention = options.auditRetention ?? UPKEEP_DEFAULTS.auditRetention
    const keptMs = durationMs(auditRetention, { name: 'auditRetention' })
    const retentionMs = durationMs(options.retention ?? UPKEEP_DEFAULTS.retention, { name: 'retention' })
    const holdMs = durationMs(options.hold ?? UPKEEP_DEFAULTS.hold, { name: 'hold' })
    this.#deps = deps
    const rescue = new Rescue({ ...deps, holdMs, onDueIn: (dueInMs) => this.nudge(dueInMs) })
    const promoter = new Promote(deps)
    this.#promoter = promoter
    const fire = new Fire(deps)
    const horizon = new HorizonWatch(deps)
    const prune = new Prune({ ...deps, retentionMs })
    const steps = {
      promote: () => promoter.step(),
      rescue: () => rescue.step(),
      fire: () => fire.step(),
      bulk: () => stepBulks(deps),
      sample: () => sampleOnce(deps),
      horizon: () => horizon.step(),
      durability: () => watchDurability(deps),
      prune: () => prune.step(),
      pruneAudit: () => pruneAuditOnce({ ...deps, keptMs }),
    }
    // In the order of a tick: what is fired and rescued is ready in the same round when it can be.
    this.#steps = [
      steps.fire,
      steps.rescue,
      steps.bulk,
      steps.promote,
      steps.sample,
      steps.horizon,
      steps.durability,
      steps.prune,
      steps.pruneAudit,
    ]
    this.#promote = new Loop({ ...deps, name: 'promote', step: steps.promote })
    this.#rescue = new Loop({ ...deps, name: 'rescue', step: steps.rescue })
    this.#fire = new Loop({ ...deps, name: 'fire', step: steps.fire })
    this.#bulk = new Loop({ ...deps, name: 'bulk', step: steps.bulk })
    this.#sample = new Loop({ ...deps, name: 'sample', step: steps.sample })
    this.#horizon = new Loop({ ...deps, name: 'horizon', step: steps.horizon })
    this.#durability = new Loop({ ...deps, name: 'durability', step: steps.durability })
    this.#prune = new Loop({ ...deps, name: 'prune', step: steps.prune })
    this.#pruneAudit = new Loop({ ...deps, name: 'prune audit', step: steps.pruneAudit })
  }

  start(): void {
    this.#promote.start(0)
    this.#fire.start(0)
    // Processes often start together; what is not urgent they begin apart.
    this.#rescue.start(jittered(1_000, this.#deps.ports))
    this.#bulk.start(jittered(2_000, this.#deps.ports))
    this.#sample.start(jittered(3_000, this.#deps.ports))
    this.#horizon.start(jittered(4_000, this.#deps.ports))
    this.#durability.start(jittered(5_000, this.#deps.ports))
    this.#prune.start(jittered(5_000, this.#deps.ports))
    this.#pruneAudit.start(jittered(30_000, this.#deps.ports))
  }

  /** Ends upkeep, and waits for steps in flight. */
  async stop(): Promise<void> {
    const loops = [
      this.#promote,
      this.#rescue,
      this.#fire,
      this.#bulk,
      this.#sample,
      this.#horizon,
      this.#durability,
      this.#prune,
      this.#pruneAudit,
    ]
    await Promise.all(loops.map((loop) => loop.stop()))
  }

  /** Something of this process becomes due in so many milliseconds: promote is there in time. */
  nudge(dueInMs = 0): void {
    this.#promote.nudge(this.#promoter.waitFor(Math.max(0, dueInMs)))
  }

  /** A schedule was made or changed in this process: look at once when it is due. */
  nudgeSchedules(): void {
    this.#fire.nudge(0)
  }

  /** A bulk action was asked for in this process: begin with it. */
  nudgeBulks(): void {
    this.#bulk.nudge(0)
  }

  /** Every step once, for tests and for those who run upkeep by hand. Raises what the store raises. */
  async tick(): Promise<void> {
    for (const step of this.#steps) await step()
  }
}
