// A real Redis server with its append-only file on, for the peers that need one.

import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { keptPort } from './kept-port.js'

const STOP_MS = 12_000

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

  private constructor(port: number, parts: { child: ChildProcess; folder: string; settings: RedisFlags }) {
    this.port = port
    this.#child = parts.child
    this.#folder = parts.folder
    this.#settings = parts.settings
  }

  /** Null where Redis is not installed: `apt-get install redis-server` brings it. */
  static async open(settings: RedisFlags = {}): Promise<RedisServer | null> {
    if (spawnSync('redis-server', ['--version']).status !== 0) return null
    const folder = await mkdtemp(join(tmpdir(), 'holdfast-redis-'))
    const port = await keptPort()
    const all = { port: String(port), bind: '127.0.0.1', dir: folder, save: '', appendonly: 'yes', ...settings }
    return new RedisServer(port, { child: await spawnServer(all), folder, settings: all })
  }

  /** Starts it again after its end, with the data it has, and resolves once it has read them. */
  async start(changes: RedisFlags = {}): Promise<void> {
    this.#child = await spawnServer({ ...this.#settings, ...changes })
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
    const ended = once(this.#child, 'exit')
    this.#child.kill('SIGKILL')
    await ended
  }

  /** Ends it in order. A replica that is writing its first append-only file refuses that, and is killed after a while. */
  async stop(): Promise<void> {
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
    spawnSync('redis-cli', ['-p', String(this.port), 'config', 'set', name, value])
  }

  /** Removes all its data. */
  empty(): void {
    spawnSync('redis-cli', ['-p', String(this.port), 'flushall'])
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
    return spawnSync('redis-cli', ['-p', String(this.port), ...words], { encoding: 'utf8' }).stdout
  }

  async close(): Promise<void> {
    if (this.isRunning) await this.stop()
    await rm(this.#folder, { recursive: true, force: true })
  }
}

async function spawnServer(settings: RedisFlags): Promise<ChildProcess> {
  const flags = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value])
  const child = spawn('redis-server', flags, { stdio: ['ignore', 'pipe', 'ignore'] })
  let said = ''
  await new Promise<void>((resolve, reject) => {
    child.stdout.on('data', (chunk) => {
      said += String(chunk)
      if (said.includes('Ready to accept connections')) resolve()
      said = said.slice(-1_000)
    })
    child.once('exit', (code) => reject(new Error(`redis-server ended with ${code}; it wrote: ${said}`)))
  })
  return child
}
