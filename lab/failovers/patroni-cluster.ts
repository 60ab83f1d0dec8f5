// Servers under Patroni, as a run of failovers sees them: clients know HAProxy's address and nothing else.

import { setTimeout as sleep } from 'node:timers/promises'
import { PatroniServers } from '../servers/patroni.js'
import { type Cluster, type Takeover, type Way, whenWritable } from './cluster.js'

const BEHIND_MS = 1_000

export class PatroniCluster implements Cluster {
  readonly #servers: PatroniServers
  #primaryUrl: string

  private constructor(servers: PatroniServers, primaryUrl: string) {
    this.#servers = servers
    this.#primaryUrl = primaryUrl
  }

  static async open(): Promise<PatroniCluster> {
    const servers = await PatroniServers.open()
    return new PatroniCluster(servers, await servers.primaryUrl())
  }

  get url(): string {
    return this.#servers.url
  }

  get primaryUrl(): string {
    return this.#primaryUrl
  }

  async takeOver(way: Way, before: () => Promise<void>): Promise<Takeover> {
    const servers = this.#servers
    const next = await servers.standbyUrl()
    const watching = whenWritable([next])
    if (way === 'crash, behind') {
      await servers.holdBack()
      await sleep(BEHIND_MS)
    }
    await before()
    if (way === 'switchover') await servers.switchOver()
    else await servers.crash()
    const answeredMs = await watching
    this.#primaryUrl = next
    return { answeredMs }
  }

  restore(): Promise<void> {
    return this.#servers.whenFollowed()
  }

  close(): Promise<void> {
    return this.#servers.close()
  }
}
