// Worker processes of a test: started with a configuration, watched through their messages, ended by signals.

import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { HoldfastEvent } from '../../src/core/events.js'

const FIXTURE = fileURLToPath(new URL('../fixtures/worker.mjs', import.meta.url))
const PATIENCE_MS = 60_000

export interface WorkerConfig {
  readonly url: string
  readonly schema: string
  readonly queue?: string
  /** Options of the worker, the job's definition and connect(). */
  readonly worker?: object
  readonly definition?: object
  readonly connect?: object
  /** False connects without working, for processes that only do upkeep. */
  readonly work?: boolean
  /** Table for the effects of transactions. */
  readonly effects?: string
}

export interface Message {
  readonly what: string
  readonly id?: string
  readonly attempt?: number
  readonly reason?: string
  readonly event?: HoldfastEvent
}

/** What a job did, as its process wrote it down before anything could happen to it. */
export interface LogLine {
  readonly pid: number
  readonly what: 'began' | 'ended' | 'effect'
  readonly id: string
  readonly attempt: number
  readonly fence?: number
}

/** The worker processes of one test and the file they write to. */
export class Processes {
  readonly folder: string
  readonly log: string
  readonly #all: WorkerProcess[] = []

  private constructor(folder: string) {
    this.folder = folder
    this.log = join(folder, 'log.jsonl')
    writeFileSync(this.log, '')
  }

  static async open(): Promise<Processes> {
    return new Processes(await mkdtemp(join(tmpdir(), 'holdfast-processes-')))
  }

  /** Starts a worker process and waits until it is ready. */
  async start(config: WorkerConfig, nodeOptions: readonly string[] = []): Promise<WorkerProcess> {
    const started = this.launch(config, nodeOptions)
    await started.next(({ what }) => what === 'ready')
    return started
  }

  /** Starts a worker process without waiting. */
  launch(config: WorkerConfig, nodeOptions: readonly string[] = []): WorkerProcess {
    const child = fork(FIXTURE, [JSON.stringify({ ...config, log: this.log })], {
      execArgv: [...nodeOptions],
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    })
    const started = new WorkerProcess(child)
    this.#all.push(started)
    return started
  }

  lines(): LogLine[] {
    return readFileSync(this.log, 'utf8')
      .split('\n')
      .filter((line) => line.endsWith('}'))
      .map((line) => JSON.parse(line) as LogLine)
  }

  async close(): Promise<void> {
    await Promise.all(this.#all.map((started) => started.kill('SIGKILL')))
    await rm(this.folder, { recursive: true, force: true })
  }
}

export class WorkerProcess {
  readonly child: ChildProcess
  readonly messages: Message[] = []
  readonly #waiting = new Set<() => void>()

  constructor(child: ChildProcess) {
    this.child = child
    child.on('message', (message) => {
      this.messages.push(message as Message)
      for (const look of [...this.#waiting]) look()
    })
    child.on('exit', () => {
      for (const look of [...this.#waiting]) look()
    })
  }

  get pid(): number {
    return this.child.pid!
  }

  get isAlive(): boolean {
    return this.child.exitCode === null && this.child.signalCode === null
  }

  events<N extends HoldfastEvent['name']>(name: N): Extract<HoldfastEvent, { name: N }>[] {
    return this.messages
      .filter((message) => message.event?.name === name)
      .map((message) => message.event as Extract<HoldfastEvent, { name: N }>)
  }

  /** The first message that matches, also if it came before. Rejects when the process ends without one. */
  async next(matches: (message: Message) => boolean): Promise<Message> {
    const find = () => this.messages.find(matches)
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => finish(new Error(`process ${this.pid} sent no such message`)), PATIENCE_MS)
      const finish = (result: Message | Error) => {
        clearTimeout(timer)
        this.#waiting.delete(look)
        result instanceof Error ? reject(result) : resolve(result)
      }
      const look = () => {
        const found = find()
        if (found !== undefined) finish(found)
        else if (!this.isAlive) finish(new Error(`process ${this.pid} ended before it sent such a message`))
      }
      this.#waiting.add(look)
      look()
    })
  }

  signal(signal: NodeJS.Signals): void {
    this.child.kill(signal)
  }

  /** Sends a signal that ends the process and waits for its end. */
  async kill(signal: 'SIGKILL' | 'SIGTERM'): Promise<{ code: number | null; signal: string | null }> {
    if (this.isAlive) {
      const ended = once(this.child, 'exit')
      this.child.kill(signal)
      await ended
    }
    return { code: this.child.exitCode, signal: this.child.signalCode }
  }
}
