// The shared work that every process does beside its own:
//
//   promote.ts  timed jobs whose time has come become ready
//   rescue.ts   jobs with expired leases are settled; after an outage, living workers may extend theirs first (rescue-hold.ts)
//   fire.ts     ticks of schedules become jobs
//   bulk.ts     actions on many jobs are done, batch by batch
//   outbox.ts   jobs of an outbox are sent to the store
//   sample.ts   the number of jobs in each state is recorded; flow-watch.ts tells which limits give no jobs
//   prune.ts    old days and expired rows are dropped; prune-audit.ts does it for the audit log
//
// horizon.ts and durability.ts warn about the server: old snapshots, and settings that could lose jobs.
//
// There is no leader: any process may do any step at any time, because each is bounded and doing it twice changes nothing.
// So no process's death stops the others. Each step has its own loop (loop.ts).

import { checkKeys } from '../core/check.js'
import { type Duration, durationMs } from '../core/duration.js'
import type { Emit } from '../core/events.js'
import type { TallySink } from '../core/operating.js'
import type { Ports } from '../core/ports.js'
import type { QuietPart } from '../core/quiet.js'
import type { Pulse, UpkeepStore } from '../core/upkeep-store.js'
import { stepBulks } from './bulk.js'
import { watchDurability } from './durability.js'
import { Fire } from './fire.js'
import { FlowWatch } from './flow-watch.js'
import { HorizonWatch } from './horizon.js'
import { jittered, Loop } from './loop.js'
import { dispatchOutbox } from './outbox.js'
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
  /** A step that a rest was interrupted for is over. */
  readonly onStepped?: () => void
}

/** The steps, in the order of a tick, and about how long after the start the loop of each begins. Fire and rescue come before
 *  promote, so that their jobs can be ready in the same round. Processes often start together, so steps that are not urgent
 *  begin at different times. */
const BEGINS_MS = {
  fire: 0,
  outbox: 0,
  rescue: 1_000,
  bulk: 2_000,
  promote: 0,
  sample: 3_000,
  horizon: 4_000,
  durability: 5_000,
  prune: 5_000,
  'prune audit': 30_000,
} as const

/** How soon, at the latest, an upkeep that rested fires and promotes. */
const STIRRED_MS = 200

type StepName = keyof typeof BEGINS_MS

const STEP_NAMES = Object.keys(BEGINS_MS) as StepName[]

/** The upkeep of one process. */
export class Upkeep implements QuietPart {
  readonly #deps: UpkeepDeps
  readonly #promoter: Promote
  readonly #steps: Readonly<Record<StepName, () => Promise<number>>>
  readonly #loops: Readonly<Record<StepName, Loop>>
  /** Ends the announcements of rows in the outbox. */
  #deafen: (() => void) | null = null

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
    const flow = new FlowWatch(deps)
    const prune = new Prune({ ...deps, retentionMs })
    this.#steps = {
      fire: () => fire.step().finally(() => deps.onStepped?.()),
      rescue: () => rescue.step(),
      outbox: () => dispatchOutbox(deps),
      bulk: () => stepBulks(deps),
      promote: () => promoter.step().finally(() => deps.onStepped?.()),
      sample: () => sampleOnce(deps, flow),
      horizon: () => horizon.step(),
      durability: () => watchDurability(deps),
      prune: () => prune.step(),
      'prune audit': () => pruneAuditOnce({ ...deps, keptMs }),
    }
    const loops = STEP_NAMES.map((name) => [name, new Loop({ ...deps, name, step: this.#steps[name] })])
    this.#loops = Object.fromEntries(loops) as Record<StepName, Loop>
  }

  start(): void {
    for (const name of STEP_NAMES) this.#loops[name].start(jittered(BEGINS_MS[name], this.#deps.ports))
    this.#deafen = this.#deps.store.outbox?.listen(() => this.#loops.outbox.nudge(0)) ?? null
  }

  /** Ends upkeep, and waits for steps in flight. */
  async stop(): Promise<void> {
    this.#deafen?.()
    await Promise.all(Object.values(this.#loops).map((loop) => loop.stop()))
  }

  /** A job of this process becomes due in this number of milliseconds. Promote will run by then. */
  nudge(dueInMs = 0): void {
    this.#loops.promote.nudge(this.#promoter.waitFor(Math.max(0, dueInMs)))
  }

  /** A schedule was made or changed in this process. Fire runs immediately, to learn when it is due. */
  nudgeSchedules(): void {
    this.#loops.fire.nudge(0)
  }

  /** A bulk action was started in this process. The bulk step runs immediately. */
  nudgeBulks(): void {
    this.#loops.bulk.nudge(0)
  }

  /** Whether it can rest: always, because it keeps nothing in hand. */
  readonly isIdle = true
  readonly queues: readonly string[] = []
  readonly beat = null

  /** Does nothing by itself, but what `due` says. */
  rest(): void {
    for (const loop of Object.values(this.#loops)) loop.rest()
  }

  /** Works as usual again. Processes are woken together, so they begin at different times. */
  stir(): void {
    for (const name of STEP_NAMES)
      this.#loops[name].wake(jittered(Math.max(STIRRED_MS, BEGINS_MS[name]), this.#deps.ports))
  }

  /** While it rests: what is known to become due. */
  due({ nextDueMs, nextTickMs }: Pick<Pulse, 'nextDueMs' | 'nextTickMs'>): void {
    if (nextDueMs !== null) this.nudge(nextDueMs)
    if (nextTickMs !== null) this.#loops.fire.nudge(Math.max(0, nextTickMs))
  }

  /** While it rests: does once what can wait, but not for ever. */
  tidy(): void {
    for (const name of ['promote', 'durability', 'prune', 'prune audit'] as const) this.#loops[name].nudge(0)
  }

  /** Runs every step once, for tests and for callers who run upkeep themselves. Raises what the store raises. */
  async tick(): Promise<void> {
    for (const name of STEP_NAMES) await this.#steps[name]()
  }
}
