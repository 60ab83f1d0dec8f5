// A primary, its replicas and the sentinels that watch them, on this machine.

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from './postgres.js'
import { type RedisFlags, RedisServer } from './redis.js'
import { command, until } from './redis-cluster.js'

const SENTINELS = 3
/** Sentinels begin no second failover within twice this time. */
const FAILOVER_MS = 4_000
/** The name of the primary. */
export const NAME = 'jobs'

interface WatchedOptions {
  /** Of each server, by its number; the primary is the first. */
  readonly flags?: (index: number) => RedisFlags
  /** How long the primary may be silent before another takes over. */
  readonly downAfterMs?: number
}

export class WatchedRedis {
  readonly primary: RedisServer
  readonly replicas: readonly RedisServer[]
  readonly #sentinels: readonly Sentinel[]

  private constructor(primary: RedisServer, replicas: readonly RedisServer[], sentinels: readonly Sentinel[]) {
    this.primary = primary
    this.replicas = replicas
    this.#sentinels = sentinels
  }

  /** Null where Redis is not installed. */
  static async open(
    replicaCount = 2,
    { flags: own = () => ({}), downAfterMs = 500 }: WatchedOptions = {},
  ): Promise<WatchedRedis | null> {
    const flags = { appendonly: 'no', maxmemory: '256mb', 'repl-diskless-sync-delay': '0' }
    const primary = await RedisServer.open({ ...flags, ...own(0) })
    if (primary === null) return null
    const replicas: RedisServer[] = []
    for (let index = 0; index < replicaCount; index++) {
      replicas.push((await RedisServer.open({ ...flags, ...own(index + 1), replicaof: `127.0.0.1 ${primary.port}` }))!)
    }
    const sentinels: Sentinel[] = []
    for (let index = 0; index < SENTINELS; index++) sentinels.push(await openSentinel(primary.port, downAfterMs))
    const watched = new WatchedRedis(primary, replicas, sentinels)
    await until('every sentinel knows all others and the replicas', () => {
      return sentinels.every(({ port }) => {
        const facts = command({ port }, 'sentinel', 'master', NAME).split('\n')
        const of = (name: string) => facts[facts.indexOf(name) + 1]
        return of('num-other-sentinels') === String(SENTINELS - 1) && of('num-slaves') === String(replicaCount)
      })
    })
    await until('the replicas follow', () => {
      return command(primary, 'wait', String(replicaCount), '100') === String(replicaCount)
    })
    return watched
  }

  get url(): string {
    return `redis+sentinel://${this.#sentinels.map(({ port }) => `127.0.0.1:${port}`).join(',')}/${NAME}`
  }

  get sentinelPorts(): readonly number[] {
    return this.#sentinels.map(({ port }) => port)
  }

  async close(): Promise<void> {
    for (const { child, folder } of this.#sentinels) {
      // An interrupt of the terminal reaches sentinels too: one that has ended sends no second event.
      if (child.exitCode === null && child.signalCode === null) {
        const ended = once(child, 'exit')
        child.kill('SIGKILL')
        await ended
      }
      await rm(folder, { recursive: true, force: true })
    }
    await Promise.all([this.primary, ...this.replicas].map((server) => server.close()))
  }
}

interface Sentinel {
  readonly port: number
  readonly child: ChildProcess
  readonly folder: string
}

async function openSentinel(primaryPort: number, downAfterMs: number): Promise<Sentinel> {
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-sentinel-'))
  const port = await freePort()
  const file = join(folder, 'sentinel.conf')
  const lines = [
    `port ${port}`,
    'bind 127.0.0.1',
    `dir ${folder}`,
    `sentinel monitor ${NAME} 127.0.0.1 ${primaryPort} 2`,
    `sentinel down-after-milliseconds ${NAME} ${downAfterMs}`,
    `sentinel failover-timeout ${NAME} ${FAILOVER_MS}`,
  ]
  await writeFile(file, `${lines.join('\n')}\n`)
  const child = spawn('redis-server', [file, '--sentinel'], { stdio: ['ignore', 'pipe', 'ignore'] })
  await new Promise<void>((resolve, reject) => {
    child.stdout.on('data', (chunk) => String(chunk).includes('+monitor') && resolve())
    child.once('exit', (code) => reject(new Error(`the sentinel ended with ${code}`)))
  })
  return { port, child, folder }
}
