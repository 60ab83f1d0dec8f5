// A real Redis server with its append-only file on, for the peers that need one.

import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { keptPort } from './kept-port.js'

const STOP_MS = 12_000
/** How long a server may take to read its data, and a command line to be answered. */
const START_MS = 60_000
const CLI_MS = 30_000
/** How much of what a server writes is kept. */
const SAID_MAX = 4_000

/** How long an emptied server may take to write its log anew. */
const LOOK_MS = 50
const LOOKS_MAX = 200

/** Settings of a server, by their names in redis.conf. */
export type RedisFlags = Readonly<Record<string, string>>

export class RedisServer {
  readonly port: number
  readonly #settings: RedisFlags
  readonly #folder: string
  #child: ChildProcess
  #said: Said

  private constructor(port: number, parts: { spawned: Spawned; folder: string; settings: RedisFlags }) {
    this.port = port
    this.#child = parts.spawned.child
    this.#said = parts.spawned.said
    this.#folder = parts.folder
    this.#settings = parts.settings
  }

  /** Null where Redis is not installed: `apt-get install redis-server` brings it. */
  static async open(settings: RedisFlags = {}): Promise<RedisServer | null> {
    if (spawnSync('redis-server', ['--version']).status !== 0) return null
    const folder = await mkdtemp(join(tmpdir(), 'holdfast-redis-'))
    const port = await keptPort()
    const all = { port: String(port), bind: '127.0.0.1', dir: folder, save: '', appendonly: 'yes', ...settings }
    return new RedisServer(port, { spawned: await spawnServer(all), folder, settings: all })
  }

  /** Starts it again after its end, with the data it has, and resolves once it has read them. */
  async start(changes: RedisFlags = {}): Promise<void> {
    const { child, said } = await spawnServer({ ...this.#settings, ...changes })
    this.#child = child
    this.#said = said
  }

  /** The last lines that it wrote. */
  get said(): string {
    return this.#said.text
  }

  /** Writes a snapshot. Without an append-only file a server that is killed later comes back as it was now. */
  snapshot(): void {
    this.#cli('save')
  }

  get url(): string {
    return `redis://127.0.0.1:${this.port}`
  }

  get isRunning(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null
  }

  /** Ends it as a loss of the machine would. */
  async kill(): Promise<void> {
    // One that has ended sends no second event.
    if (!this.isRunning) return
    const ended = once(this.#child, 'exit')
    this.#child.kill('SIGKILL')
    await ended
  }

  /** Ends it in order. A replica that is writing its first append-only file refuses that, and is killed after a while. */
  async stop(): Promise<void> {
    if (!this.isRunning) return
    const child = this.#child
    const ended = once(child, 'exit')
    child.kill('SIGTERM')
    const timer = setTimeout(() => child.kill('SIGKILL'), STOP_MS)
    await ended
    clearTimeout(timer)
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal)
  }

  get pid(): number {
    return this.#child.pid!
  }

  /** Changes a setting while it runs. */
  set(name: string, value: string): void {
    spawnSync('redis-cli', ['-p', String(this.port), 'config', 'set', name, value], { timeout: CLI_MS })
  }

  /** Removes all its data. */
  empty(): void {
    spawnSync('redis-cli', ['-p', String(this.port), 'flushall'], { timeout: CLI_MS })
  }

  /** Removes all its data, and what its log had of them. */
  emptyWithLog(): void {
    this.empty()
    this.#cli('bgrewriteaof')
    for (let look = 0; look < LOOKS_MAX && this.#persistence('aof_rewrite_in_progress') !== 0; look++) {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, LOOK_MS)
    }
  }

  /** How long its append-only log is. */
  logBytes(): number {
    return this.#persistence('aof_current_size')
  }

  #persistence(name: string): number {
    return Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(this.#cli('info', 'persistence'))?.[1])
  }

  #cli(...words: string[]): string {
    return spawnSync('redis-cli', ['-p', String(this.port), ...words], { encoding: 'utf8', timeout: CLI_MS }).stdout
  }

  async close(): Promise<void> {
    await this.stop()
    await rm(this.#folder, { recursive: true, force: true })
  }
}

interface Said {
  text: string
}

interface Spawned {
  readonly child: ChildProcess
  readonly said: Said
}

async function spawnServer(settings: RedisFlags): Promise<Spawned> {
  const flags = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value])
  const child = spawn('redis-server', flags, { stdio: ['ignore', 'pipe', 'ignore'] })
  const said: Said = { text: '' }
  let timer: NodeJS.Timeout | undefined
  try {
    await new Promise<void>((resolve, reject) => {
      timer = setTimeout(() => {
        child.kill('SIGKILL')
        reject(new Error(`redis-server was not ready within ${START_MS} ms; it wrote: ${said.text}`))
      }, START_MS)
      child.stdout.on('data', (chunk) => {
        const text = said.text + String(chunk)
        if (text.includes('Ready to accept connections')) resolve()
        said.text = text.slice(-SAID_MAX)
      })
      child.once('exit', (code) => reject(new Error(`redis-server ended with ${code}; it wrote: ${said.text}`)))
    })
  } finally {
    clearTimeout(timer)
  }
  return { child, said }
}
