// A real Redis server with its append-only file on, for the peers that need one.

import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from './postgres.js'

/** How long an emptied server may take to write its log anew. */
const LOOK_MS = 50
const LOOKS_MAX = 200

/** Settings of a server, by their names in redis.conf. */
export type RedisFlags = Readonly<Record<string, string>>

export class RedisServer {
  readonly port: number
  readonly #flags: readonly string[]
  readonly #folder: string
  #child: ChildProcess

  private constructor(port: number, child: ChildProcess, { folder, flags }: { folder: string; flags: string[] }) {
    this.port = port
    this.#child = child
    this.#folder = folder
    this.#flags = flags
  }

  /** Null where Redis is not installed: `apt-get install redis-server` brings it. */
  static async open(settings: RedisFlags = {}): Promise<RedisServer | null> {
    if (spawnSync('redis-server', ['--version']).status !== 0) return null
    const folder = await mkdtemp(join(tmpdir(), 'holdfast-redis-'))
    const port = await freePort()
    const all = { port: String(port), bind: '127.0.0.1', dir: folder, save: '', appendonly: 'yes', ...settings }
    const flags = Object.entries(all).flatMap(([name, value]) => [`--${name}`, value])
    return new RedisServer(port, await startServer(flags), { folder, flags })
  }

  /** Starts it again after it ended, with what it had written to its disk. */
  async start(): Promise<void> {
    this.#child = await startServer(this.#flags)
  }

  /** Writes a snapshot. Without an append-only file a server that is killed later comes back as it was now. */
  snapshot(): void {
    spawnSync('redis-cli', ['-p', String(this.port), 'save'])
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
    if (this.isRunning) {
      const ended = once(this.#child, 'exit')
      this.#child.kill('SIGTERM')
      await ended
    }
    await rm(this.#folder, { recursive: true, force: true })
  }
}

async function startServer(flags: readonly string[]): Promise<ChildProcess> {
  const child = spawn('redis-server', flags, { stdio: ['ignore', 'pipe', 'ignore'] })
  await new Promise<void>((resolve, reject) => {
    child.stdout.on('data', (chunk) => String(chunk).includes('Ready to accept connections') && resolve())
    child.once('exit', (code) => reject(new Error(`redis-server ended with ${code}`)))
  })
  return child
}
