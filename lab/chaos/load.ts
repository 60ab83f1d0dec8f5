// The load of a chaos run: producers that enqueue through their own links, with priorities, delays, repeated keys and chains, and
// an operator who cancels and requeues.

import { join } from 'node:path'
import type { EnqueueOptions } from '../../src/client/enqueue-options.js'
import { type Holdfast, openHoldfast } from '../../src/holdfast.js'
import { seededRandom } from '../../src/testing/seeded-random.js'
import { type GeneratedJob, generatedJobs } from '../gen/handlers.js'
import { type GeneratedPayload, jobAt, type Kind } from '../gen/mix.js'
import { type Call, produce } from '../gen/produce.js'
import { Recorder } from '../gen/recorder.js'
import { flowOf } from './flow-load.js'
import { openStore } from './open-store.js'
import type { FaultProxy } from './proxy.js'
import type { ChaosSettings } from './settings.js'
import type { Stage } from './stage.js'
import { GENERATED, queueOf } from './work.js'

const CALLERS = 400
const KEYS = 300
/** When so many times the jobs that a run needs were asked for, and faults go on, fewer are: a machine that is slow with the faults would not get through
 *  what piles up meanwhile. */
const ENOUGH = 1.1
const SLOWER = 10
const OPERATE_MS = 400

export class Producer {
  readonly name: string
  /** Its link, which can be broken; null for one that finds the server itself. */
  readonly proxy: FaultProxy | null
  readonly #holdfast: Holdfast
  readonly #recorder: Recorder
  readonly #seed: number
  readonly #settings: ChaosSettings
  readonly #extra: Call[] = []
  readonly #accepted: string[] = []
  readonly #poison: string[] = []
  #extras = 0
  #isClosed = false
  accepted = 0

  private constructor(parts: {
    name: string
    proxy: FaultProxy | null
    holdfast: Holdfast
    recorder: Recorder
    seed: number
    settings: ChaosSettings
  }) {
    this.name = parts.name
    this.proxy = parts.proxy
    this.#holdfast = parts.holdfast
    this.#recorder = parts.recorder
    this.#seed = parts.seed
    this.#settings = parts.settings
  }

  static async open(
    number: number,
    place: { stage: Stage; folder: string; settings: ChaosSettings },
  ): Promise<Producer> {
    const { stage, folder, settings } = place
    const name = `producer-${number}`
    const { url, link: proxy } = await stage.way({ kind: 'producer', number })
    const store = await openStore({ url, schema: stage.schema, durability: settings.durability })
    const holdfast = await openHoldfast(store, { upkeep: false, name })
    const recorder = new Recorder(join(folder, `${name}.jsonl`), { process: name, processRun: 1 })
    return new Producer({ name, proxy, holdfast, recorder, settings, seed: settings.seed * 16 + number })
  }

  /** Enqueues until `signal` fires, and resolves when the last call has been answered. */
  async run(signal: AbortSignal): Promise<void> {
    const { jobs, perSecond, producers } = this.#settings
    const callAt = (seq: number) => this.#extra.shift() ?? this.#callAt(seq)
    const onAnswer = (call: Call, id: string | null) => this.#answered(call, id)
    const recorder = this.#recorder
    const operating = this.#operate(signal)
    await produce(this.#holdfast, {
      callAt,
      perSecond: perSecond / producers,
      afterwards: { seq: Math.ceil((jobs * ENOUGH) / producers), perSecond: perSecond / producers / SLOWER },
      callers: CALLERS,
      recorder,
      signal,
      onAnswer,
    })
    await operating
  }

  /** Enqueues a job of a special kind next. */
  add(job: GeneratedJob, changes: Partial<GeneratedPayload> = {}): void {
    const key = `${this.#seed}-extra-${++this.#extras}`
    const plain = { seq: -this.#extras, kind: 'fast', ms: 1, failures: 0, effect: 'none' } as const
    this.#extra.push({ job, payload: { ...plain, key, ...changes }, options: {} })
  }

  #callAt(seq: number): Call {
    const payload = jobAt(this.#seed, seq, this.#settings.mix)
    const random = seededRandom((this.#seed * 7_919 + seq) >>> 0)
    const last = this.#accepted[this.#accepted.length - 1]
    const isAfter = last !== undefined && random.float() < 0.04
    const priority = random.float() < 0.8 ? 0 : random.float() < 0.5 ? 5 : -5
    const { spread } = this.#settings
    // A key is one of its queue.
    const keys = spread > 1 ? `welcome-${seq % spread}` : 'welcome'
    const options: EnqueueOptions = {
      priority,
      ...(spread > 1 ? { queue: queueOf(seq % spread) } : {}),
      ...(random.float() < 0.05 ? { delay: Math.round(300 + random.float() * 2_500) } : {}),
      ...(random.float() < 0.1 ? { idempotencyKey: `${keys}-${Math.floor(random.float() * KEYS)}` } : {}),
      ...(isAfter ? { after: last, onParentDead: random.float() < 0.5 ? 'run' : 'cancel' } : {}),
    }
    if (!this.#settings.hasFlow) return { job: JOBS[payload.kind], payload, options }
    const flow = flowOf(random)
    // A batch has no effects of its own.
    const own = flow.job === null ? payload : { ...payload, effect: 'none' as const }
    return { job: flow.job ?? JOBS[payload.kind], payload: own, options: { ...options, ...flow.options } }
  }

  #answered({ payload }: Call, id: string | null): void {
    if (id === null) return
    this.accepted++
    this.#accepted.push(id)
    if (payload.kind === 'poison') this.#poison.push(id)
    if (this.#accepted.length > 1_000) this.#accepted.splice(0, 500)
  }

  /** Cancels a recent job and requeues a poisoned one from time to time. The store records the result. */
  async #operate(signal: AbortSignal): Promise<void> {
    const random = seededRandom(this.#seed)
    while (!signal.aborted) {
      await new Promise((resolve) => setTimeout(resolve, OPERATE_MS))
      const recent = this.#accepted[Math.floor(random.float() * this.#accepted.length)]
      const old = this.#poison.length > 50 ? this.#poison.shift() : undefined
      const calls = [
        recent === undefined ? null : this.#holdfast.cancel(recent),
        old === undefined ? null : this.#holdfast.requeue(old),
      ]
      await Promise.allSettled(calls)
    }
  }

  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    await this.#holdfast.close()
    this.#recorder.close()
    await this.proxy?.close()
  }
}

/** The jobs of the load, by kind. */
export const JOBS: Record<Kind, GeneratedJob> = generatedJobs(GENERATED)
