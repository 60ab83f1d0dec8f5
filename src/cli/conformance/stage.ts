// Where a worker is put to the test: a store in memory, a server with an API key for it, and its processes.

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import type { EnqueueOptions } from '../../client/enqueue-options.js'
import type { JobView } from '../../core/views.js'
import { type Holdfast, openHoldfast } from '../../holdfast.js'
import { createServer, type Server } from '../../server/index.js'
import { memoryStore } from '../../stores/memory/index.js'

export const QUEUE = 'conformance'
export const LEASE_MS = 2_000
export const DRAIN_MS = 2_000
const CONCURRENCY = 8
const LOOK_MS = 25
const OUTPUT_MAX = 4_000

/** What a case does not meet. */
class Unmet extends Error {}

export class Stage {
  readonly holdfast: Holdfast
  readonly #command: string
  readonly #patienceMs: number
  readonly #key: string
  readonly #workers = new Set<WorkerProcess>()
  #server: Server
  #port: number

  private constructor(
    holdfast: Holdfast,
    options: { command: string; patienceMs: number; key: string },
    [server, port]: readonly [Server, number],
  ) {
    this.holdfast = holdfast
    this.#command = options.command
    this.#patienceMs = options.patienceMs
    this.#key = options.key
    this.#server = server
    this.#port = port
  }

  static async open(command: string, patienceMs: number): Promise<Stage> {
    const holdfast = await openHoldfast(memoryStore(), { upkeep: { hold: 0 } })
    const { secret } = await holdfast.createKey({ name: 'conformance', scopes: ['work'], queues: [QUEUE] })
    return new Stage(holdfast, { command, patienceMs, key: secret }, await serve(holdfast, 0))
  }

  /** Starts a process of the worker, in a group of its own, so that a shell in between gets no signal alone. */
  start({ concurrency = CONCURRENCY }: { concurrency?: number } = {}): WorkerProcess {
    const child = spawn(this.#command, {
      shell: true,
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: {
        ...process.env,
        HOLDFAST_SERVER: `http://127.0.0.1:${this.#port}`,
        HOLDFAST_KEY: this.#key,
        HOLDFAST_QUEUES: QUEUE,
        HOLDFAST_CONCURRENCY: String(concurrency),
        HOLDFAST_LEASE_MS: String(LEASE_MS),
        HOLDFAST_DRAIN_MS: String(DRAIN_MS),
      },
    })
    const worker = new WorkerProcess(child)
    this.#workers.add(worker)
    return worker
  }

  async enqueue(type: string, payload: unknown, options: EnqueueOptions = {}): Promise<string> {
    return (await this.holdfast.enqueue(type, payload, { queue: QUEUE, ...options })).id
  }

  /** The job, once this holds for it. */
  async until(id: string, what: string, holds: (job: JobView) => boolean): Promise<JobView> {
    const untilMs = performance.now() + this.#patienceMs
    for (;;) {
      const job = await this.holdfast.get(id)
      if (job !== null && holds(job)) return job
      if (performance.now() > untilMs) {
        const got =
          job === null ? 'no job' : `state ${job.state}, attempt ${job.attempt}, progress ${show(job.progress)}`
        throw new Unmet(`expected ${what} within ${this.#patienceMs} ms, got ${got}${this.#said()}`)
      }
      await sleep(LOOK_MS)
    }
  }

  /** The job, once it has ended. */
  ended(id: string): Promise<JobView> {
    return this.until(id, 'the job to end', ({ state }) => ['succeeded', 'dead', 'cancelled'].includes(state))
  }

  /** The job, once an attempt of it runs: its handler has said so by its progress. */
  begun(id: string, attempt = 1): Promise<JobView> {
    const isOf = (progress: unknown) => (progress as { attempt?: unknown } | null)?.attempt === attempt
    return this.until(id, `attempt ${attempt} to begin`, ({ progress }) => isOf(progress))
  }

  /** The server goes away, and comes back at the same address. */
  async serverAway(ms: number): Promise<void> {
    await this.#server.close()
    await sleep(ms)
    const [server] = await serve(this.holdfast, this.#port)
    this.#server = server
  }

  /** Ends every process, and what they have left behind at the server. */
  async clear(): Promise<void> {
    for (const worker of this.#workers) worker.signal('SIGKILL')
    await Promise.all([...this.#workers].map((worker) => worker.ended))
    this.#workers.clear()
    // A claim that still waits for a process that is gone could get the next job.
    const untilMs = performance.now() + this.#patienceMs
    while (this.holdfast.remoteWork.waiting > 0 && performance.now() < untilMs) await sleep(LOOK_MS)
  }

  #said(): string {
    const said = [...this.#workers].map(({ output }) => output.trim()).filter((text) => text !== '')
    return said.length === 0 ? '' : `; the worker said: ${said.join(' | ').slice(-1_000)}`
  }

  async close(): Promise<void> {
    await this.clear()
    await this.#server.close()
    await this.holdfast.close()
  }
}

async function serve(holdfast: Holdfast, port: number): Promise<readonly [Server, number]> {
  const server = createServer(holdfast, { dashboard: false, apiKeys: true })
  const { url } = await server.listen({ port })
  return [server, Number(new URL(url).port)]
}

export class WorkerProcess {
  readonly #child: ChildProcess
  readonly ended: Promise<number | null>
  /** The end of what it has printed. */
  output = ''

  constructor(child: ChildProcess) {
    this.#child = child
    const keep = (chunk: unknown) => {
      this.output = (this.output + String(chunk)).slice(-OUTPUT_MAX)
    }
    child.stdout?.on('data', keep)
    child.stderr?.on('data', keep)
    this.ended = once(child, 'exit').then(([code]) => code as number | null)
  }

  /** Sends a signal to the worker and to everything that it has started. */
  signal(signal: NodeJS.Signals): void {
    try {
      if (this.#child.pid !== undefined) process.kill(-this.#child.pid, signal)
    } catch {
      // It has ended.
    }
  }

  /** Resolves when it has ended, and raises when it does not in this time. */
  async endedWithin(ms: number): Promise<void> {
    const isLate = await Promise.race([this.ended.then(() => false), sleep(ms, true, { ref: false })])
    if (isLate) throw new Unmet(`expected the worker to end within ${ms} ms of SIGTERM, and it still runs`)
  }
}

function show(value: unknown): string {
  const text = JSON.stringify(value) ?? 'nothing'
  return text.length <= 200 ? text : `${text.slice(0, 197)}…`
}

export function same(what: string, got: unknown, expected: unknown): void {
  if (JSON.stringify(got) === JSON.stringify(expected)) return
  throw new Unmet(`${what}: expected ${show(expected)}, got ${show(got)}`)
}
