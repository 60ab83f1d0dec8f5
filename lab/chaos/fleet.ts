// The worker processes of a run, each behind its own link. A process that ends is started again.

import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Recorder } from '../gen/recorder.js'
import type { FaultProxy } from './proxy.js'
import type { Durability } from './settings.js'
import type { Stage, Way } from './stage.js'
import { within } from './within.js'
import type { WorkerOrder, WorkerReady, WorkerSetup } from './work.js'

const PROGRAM = fileURLToPath(new URL('./worker.js', import.meta.url))
const WRONG_CLOCK = new URL('./wrong-clock.js', import.meta.url).href
const READY_MS = 60_000
const ENDED_MS = 60_000
const AGAIN_MS = 100

export interface FleetOptions {
  readonly stage: Stage
  /** Records when workers come and go. */
  readonly recorder: Recorder
  readonly folder: string
  readonly durability: Durability
  readonly leaseMs: number
  readonly concurrency: number
  readonly prefetch: number
  readonly processes: number
  readonly queues: readonly string[]
  /** Modules every process loads first. */
  readonly imports: readonly string[]
}

export class FleetWorker {
  readonly name: string
  /** Its link, which can be broken; null for a worker that finds the server itself. */
  readonly proxy: FaultProxy | null
  readonly #url: string
  readonly #options: FleetOptions
  #child: ChildProcess | null = null
  #processRun = 0
  #isReady = false
  #isKept = true
  #waiting: (() => void)[] = []
  /** How wrong its clock is after the next start. */
  skewMs = 0
  restarts = 0

  constructor(name: string, way: Way, options: FleetOptions) {
    this.name = name
    this.proxy = way.link
    this.#url = way.url
    this.#options = options
  }

  start(): void {
    const { stage, durability, folder, leaseMs, concurrency, prefetch, processes, queues, imports, recorder } =
      this.#options
    const processRun = ++this.#processRun
    const record = join(folder, `${this.name}.${processRun}.jsonl`)
    const { schema, effectsUrl } = stage
    const place = { url: this.#url, schema, effectsUrl, durability, name: this.name, processRun, record }
    const setup: WorkerSetup = { ...place, leaseMs, concurrency, prefetch, processes, queues }
    const skewed = this.skewMs === 0 ? [] : ['--import', WRONG_CLOCK]
    const child = fork(PROGRAM, [JSON.stringify(setup)], {
      execArgv: [...skewed, ...imports.flatMap((module) => ['--import', module])],
      env: { ...process.env, HOLDFAST_SKEW_MS: String(this.skewMs) },
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    })
    this.skewMs = 0
    this.#child = child
    let said = ''
    child.stderr?.on('data', (chunk) => {
      said = `${said}${chunk}`.slice(-4_000)
    })
    let worker: string | null = null
    child.on('message', (ready: WorkerReady) => {
      worker = ready.worker
      const serves = { queues, types: null, slots: concurrency }
      recorder.write({ ev: 'worker.up', storeAt: Date.now(), worker, of: this.name, ...serves })
      this.#isReady = true
      for (const go of this.#waiting.splice(0)) go()
    })
    child.once('exit', (code) => {
      if (worker !== null) recorder.write({ ev: 'worker.down', storeAt: Date.now(), worker })
      this.#again(code, said)
    })
    // Writing to a process that was just killed fails. Its exit event reports the end.
    child.on('error', () => {})
  }

  /** The last output of processes that ended on their own, not by a signal. */
  readonly complaints: string[] = []

  #again(code: number | null, said: string): void {
    this.#isReady = false
    this.#child = null
    if (code !== null && code !== 0 && code !== 143 && said !== '') this.complaints.push(said)
    if (!this.#isKept) return
    this.restarts++
    setTimeout(() => this.#isKept && this.start(), AGAIN_MS)
  }

  /** Waits until the process is up and takes jobs. */
  async ready(): Promise<void> {
    const deadline = performance.now() + READY_MS
    while (!this.#isReady) {
      if (performance.now() > deadline) throw new Error(`${this.name} was not ready within ${READY_MS} ms`)
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, 500)
        this.#waiting.push(() => {
          clearTimeout(timer)
          resolve()
        })
      })
    }
  }

  signal(signal: NodeJS.Signals): void {
    this.#child?.kill(signal)
  }

  order(order: WorkerOrder): void {
    if (this.#child?.connected === true) this.#child.send(order, () => {})
  }

  /** Waits for the end of the process that runs now. */
  async ended(): Promise<void> {
    if (this.#child === null) return
    await within(`${this.name}, process ${this.#child.pid}, has ended`, ENDED_MS, once(this.#child, 'exit'))
  }

  /** Ends it for good: in order, or by a kill when that takes too long. */
  async stop(): Promise<void> {
    this.#isKept = false
    if (this.#child !== null) {
      const ended = this.ended()
      this.signal('SIGCONT')
      this.signal('SIGTERM')
      const timer = setTimeout(() => this.signal('SIGKILL'), 10_000)
      await ended
      clearTimeout(timer)
    }
    await this.proxy?.close()
  }
}

/** Opens links and starts the processes, without waiting for them. */
export async function startFleet(count: number, options: FleetOptions): Promise<FleetWorker[]> {
  const fleet: FleetWorker[] = []
  for (let number = 1; number <= count; number++) {
    const way = await options.stage.way({ kind: 'worker', number })
    const worker = new FleetWorker(`worker-${number}`, way, options)
    worker.start()
    fleet.push(worker)
  }
  return fleet
}
