// Two PostgreSQL servers as a run of failovers sees them, and the ways in which one takes over from the other.

import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { PostgresPair } from '../servers/standby.js'

export const WAYS = ['crash', 'crash, behind', 'switchover', 'frozen', 'frozen, behind', 'flip'] as const
export type Way = (typeof WAYS)[number]

/** What the standby has not received for this long is lost when the primary crashes. */
const BEHIND_MS = 1_000

export interface Takeover {
  /** When the new primary first said that it takes writes, by the machine's clock. */
  readonly answeredMs: number
}

export interface Cluster {
  /** What clients connect to. */
  readonly url: string
  /** The primary itself. */
  readonly primaryUrl: string
  /** Lets another server take over. `before` is called in the moment before the primary fails. */
  takeOver(way: Way, before: () => Promise<void>): Promise<Takeover>
  /** Gives the new primary a standby that follows it. */
  restore(): Promise<void>
  close(): Promise<void>
}

/** A pair of servers that a client knows both of. */
export class PairCluster implements Cluster {
  readonly #pair: PostgresPair
  #after: (() => Promise<void>) | null = null

  private constructor(pair: PostgresPair) {
    this.#pair = pair
  }

  static async open(programs: string | null): Promise<PairCluster> {
    const settings = { wal_keep_size: '256MB', max_wal_size: '1GB', checkpoint_timeout: '30min' }
    return new PairCluster(await PostgresPair.open({ settings, ...(programs === null ? {} : { programs }) }))
  }

  get url(): string {
    const ports = [this.#pair.primary, this.#pair.standby].map(({ port }) => port).sort()
    return `postgres://holdfast@${ports.map((port) => `127.0.0.1:${port}`).join(',')}/postgres`
  }

  get primaryUrl(): string {
    return this.#pair.primary.url
  }

  async takeOver(way: Way, before: () => Promise<void>): Promise<Takeover> {
    const pair = this.#pair
    const watching = whenWritable([pair.standby.url])
    await pair.caughtUp()
    if (way.endsWith('behind')) {
      await pair.cutOff()
      await sleep(BEHIND_MS)
    }
    await before()
    this.#after = () => pair.rebuildStandby()
    switch (way) {
      case 'crash':
      case 'crash, behind':
        await pair.failOver()
        break
      case 'switchover':
        await pair.switchOver()
        this.#after = null
        break
      case 'frozen':
      case 'frozen, behind': {
        const thaw = await pair.freeze()
        await pair.promote()
        this.#after = async () => {
          thaw()
          await pair.rebuildStandby()
        }
        break
      }
      case 'flip':
        await pair.refuseWrites()
        await pair.caughtUp()
        await pair.promote()
        this.#after = () => pair.rebuildStandby()
        break
    }
    return { answeredMs: await watching }
  }

  async restore(): Promise<void> {
    await this.#after?.()
    this.#after = null
  }

  close(): Promise<void> {
    return this.#pair.close()
  }
}

const ASK_MS = 20

/** Resolves with the moment when one of the servers first takes writes. */
export async function whenWritable(urls: readonly string[], patienceMs = 120_000): Promise<number> {
  const endMs = Date.now() + patienceMs
  while (Date.now() < endMs) {
    for (const url of urls) if (await isWritable(url)) return Date.now()
    await sleep(ASK_MS)
  }
  throw new Error(`no server took over within ${patienceMs} ms`)
}

async function isWritable(url: string): Promise<boolean> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 2_000 })
  client.on('error', () => {})
  try {
    await client.connect()
    const { rows } = await client.query('SELECT pg_is_in_recovery() AS follows')
    return rows[0].follows === false
  } catch {
    return false
  } finally {
    void client.end().catch(() => {})
  }
}
