// The stage of a test about children: a client on a schema of its own, and workers with children in processes of their own.

import { fork } from 'node:child_process'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { HoldfastEvent } from '../../src/core/events.js'
import type { Holdfast } from '../../src/index.js'
import { WorkerProcess } from '../support/processes.js'
import { Stage } from '../support/stage.js'

const FIXTURE = fileURLToPath(new URL('../fixtures/host.mjs', import.meta.url))

export interface HostConfig {
  /** Options of the worker. */
  readonly worker?: object
  /** The types it has handlers for. Default: all. */
  readonly types?: readonly string[]
  readonly module?: string
  /** Whether the worker's process has middleware around its runs. */
  readonly use?: boolean
  readonly env?: Readonly<Record<string, string>>
}

/** What a handler, or its module, wrote down. */
export interface Line {
  readonly what: 'loaded' | 'began' | 'ended' | 'aborted' | 'spawned'
  readonly pid: number
  readonly threadId: number
  readonly atMs: number
  readonly id?: string
  readonly attempt?: number
  readonly fence?: number
  readonly code?: string
  /** What a step returned. */
  readonly value?: unknown
  /** A process that the handler started. */
  readonly child?: number
}

export class HostStage {
  readonly #stage: Stage
  readonly #hosts: WorkerProcess[] = []

  private constructor(stage: Stage) {
    this.#stage = stage
  }

  static async open(): Promise<HostStage> {
    return new HostStage(await Stage.open())
  }

  get holdfast(): Holdfast {
    return this.#stage.holdfast
  }

  get schema(): string {
    return this.#stage.config.schema
  }

  /** The file handlers write to. */
  get log(): string {
    return this.#stage.processes.log
  }

  touch(file: string): void {
    writeFileSync(file, '')
  }

  remove(file: string): void {
    rmSync(file)
  }

  sql(): ReturnType<Stage['sql']> {
    return this.#stage.sql()
  }

  /** Starts a worker with children and waits until it takes jobs. */
  async start(config: HostConfig = {}): Promise<WorkerProcess> {
    const host = this.launch(config)
    await host.next(({ what }) => what === 'ready')
    return host
  }

  launch({ env = {}, worker = {}, ...config }: HostConfig = {}): WorkerProcess {
    const { url, schema } = this.#stage.config
    const child = fork(FIXTURE, [JSON.stringify({ url, schema, ...config, worker: { processes: 2, ...worker } })], {
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
      env: {
        ...process.env,
        HOLDFAST_TEST_LOG: this.#stage.processes.log,
        HOLDFAST_TEST_URL: url,
        HOLDFAST_TEST_SCHEMA: schema,
        ...env,
      },
    })
    const host = new WorkerProcess(child)
    this.#hosts.push(host)
    return host
  }

  lines(what?: Line['what']): Line[] {
    const lines = readFileSync(this.#stage.processes.log, 'utf8').split('\n').filter(Boolean)
    return lines.map((line) => JSON.parse(line) as Line).filter((line) => what === undefined || line.what === what)
  }

  /** The first line that fits, as soon as it is there. */
  async line(fits: (line: Line) => boolean): Promise<Line> {
    return until(() => this.lines().find(fits))
  }

  async close(): Promise<void> {
    await Promise.all(this.#hosts.map((host) => host.kill('SIGKILL')))
    await this.#stage.close()
  }
}

/** What `look` finds, looking again until it does. */
export async function until<Found>(look: () => Found | undefined | null | false, withinMs = 30_000): Promise<Found> {
  const deadline = performance.now() + withinMs
  for (;;) {
    const found = look()
    if (found) return found
    if (performance.now() > deadline) throw new Error(`not found within ${withinMs} ms`)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

/** The processes of a host's children that are ready, according to its events. */
export function childPids(host: WorkerProcess): number[] {
  const gone = new Set(host.events('child.ended').map(({ pid }) => pid))
  return host
    .events('child.started')
    .map(({ pid }) => pid!)
    .filter((pid) => !gone.has(pid))
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    // One that has ended and is not yet waited for is still in the table.
    return !/^\d+ \(.*\) Z/.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))
  } catch {
    return false
  }
}

/** The first event that fits, as soon as it is emitted. */
export async function nextEvent<N extends HoldfastEvent['name']>(
  host: WorkerProcess,
  name: N,
  fits: (event: Extract<HoldfastEvent, { name: N }>) => boolean = () => true,
): Promise<Extract<HoldfastEvent, { name: N }>> {
  return until(() => host.events(name).find(fits))
}
