// The document that --json prints, with the machine and versions it was made on.

import { spawnSync } from 'node:child_process'
import { arch, cpus, platform, release, totalmem } from 'node:os'
import { VERSION } from '../../src/version.js'
import { withClient } from './database.js'
import type { TestServers } from './run.js'

export interface Machine {
  readonly cpu: string | null
  readonly cores: number
  readonly memoryBytes: number
  readonly system: string
  readonly node: string
}

/** The machine it ran on. */
export function describeMachine(): Machine {
  return {
    cpu: cpus()[0]?.model ?? null,
    cores: cpus().length,
    memoryBytes: totalmem(),
    system: `${platform()} ${release()} ${arch()}`,
    node: process.version,
  }
}

export interface Versions {
  readonly holdfast: string
  readonly node: string
  readonly postgres: string
  readonly redis: string | null
}

/** What ran there. The peers' versions are with their notes. */
export async function versionsOf({ postgres, redis }: TestServers): Promise<Versions> {
  const server = await withClient(postgres.url, async (client) => {
    const { rows } = await client.query("SELECT current_setting('server_version') AS version")
    return rows[0].version as string
  })
  return { holdfast: VERSION, node: process.version, postgres: server, redis: redis === null ? null : redisVersion() }
}

function redisVersion(): string {
  const { stdout } = spawnSync('redis-server', ['--version'], { encoding: 'utf8' })
  return /v=(\S+)/.exec(stdout)?.[1] ?? 'unknown'
}

/** Prints a document on stdout. */
export function writeDocument(document: object): void {
  process.stdout.write(`${JSON.stringify(document, null, 2)}\n`)
}
