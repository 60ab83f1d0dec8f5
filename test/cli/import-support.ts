// A queue of another system with processes of its own, and an import from it into a schema of Holdfast.

import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import pg from 'pg'
import { expect, onTestFinished } from 'vitest'
import { installPeers } from '../../lab/bench/contenders/peers.js'
import { nodeForPeers, PeerProcesses } from '../../lab/experiments/import-peers.js'
import type { RedisServer } from '../../lab/servers/redis.js'
import { defineJob } from '../../src/client/define-job.js'
import { connect } from '../../src/connect.js'
import type { Holdfast } from '../../src/holdfast.js'
import type { ImportSystem } from '../../src/import/contract.js'
import type { ImportSummary } from '../../src/import/summary.js'
import { dropSchema, testServerUrl } from '../support/postgres.js'
import { type Running, start } from './support.js'

const ROOT = join(import.meta.dirname, '..', '..')
const CHILD = pathToFileURL(join(ROOT, 'dist/lab/experiments/import-peer-child.js'))
export const QUEUE = 'mail'

installPeers()
const node = nodeForPeers(ROOT)
/** Why nothing can be shown here, or null. */
export const missing: string | null =
  node === null ? 'the newest peers need Node 22.18, as in lab/toolbox: `node scripts/toolbox.js --install`' : null

export interface ImportScene {
  readonly peer: PeerProcesses
  readonly holdfast: Holdfast
  /** The database of the old queue; that of Holdfast unless it was to be apart. */
  readonly sql: pg.Client
  readonly schema: string
  /** Of Holdfast. */
  readonly target: string
  /** Starts an import with these options more. */
  start(...options: string[]): Running
  /** Imports, and reads the count. */
  run(...options: string[]): Promise<ImportSummary>
  /** Runs jobs of Holdfast until `count` have run; their numbers. */
  work(count: number): Promise<readonly number[]>
}

interface SceneOptions {
  readonly redis: RedisServer
  /** The old queue is in another database than Holdfast. */
  readonly isApart?: boolean
}

/** Everything is gone with the test. */
export async function openScene(system: ImportSystem, { redis, isApart = false }: SceneOptions): Promise<ImportScene> {
  const name = `import_${randomBytes(4).toString('hex')}`
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-import-'))
  const server = testServerUrl()
  const admin = new pg.Client({ connectionString: server })
  await admin.connect()
  if (isApart) await admin.query(`CREATE DATABASE ${name}`)
  const url = isApart ? Object.assign(new URL(server), { pathname: `/${name}` }).href : server
  const sql = new pg.Client({ connectionString: url })
  await sql.connect()
  redis.empty()
  const assignment = { system, url, schema: `old_${name}`, redisPort: redis.port, queue: QUEUE, slots: 2, runMs: 100 }
  const peer = new PeerProcesses(CHILD, node!, { ...assignment, record: join(folder, 'begun') })
  const holdfast = await connect(server, { schema: name })
  onTestFinished(async () => {
    await peer.stop()
    await holdfast.close()
    await sql.query(`DROP SCHEMA IF EXISTS old_${name} CASCADE`)
    await sql.end()
    await dropSchema(server, name)
    if (isApart) await admin.query(`DROP DATABASE ${name} WITH (FORCE)`)
    await admin.end()
    await rm(folder, { recursive: true, force: true })
  })
  const from = system === 'bullmq' ? ['--from', redis.url] : ['--from', url, '--from-schema', assignment.schema]
  const begin = (...options: string[]) =>
    start(['import', system, ...from, '--batch', '20', ...options], {
      env: { HOLDFAST_URL: server, HOLDFAST_SCHEMA: name },
    })
  return {
    ...{ peer, holdfast, sql, schema: assignment.schema, target: name },
    start: begin,
    async run(...options) {
      const ended = await begin('--json', ...options).ended
      expect(ended.code, ended.stderr).toBe(0)
      return JSON.parse(ended.stdout)
    },
    work: (count) => work(holdfast, count),
  }
}

async function work(holdfast: Holdfast, count: number): Promise<readonly number[]> {
  const ran: number[] = []
  const handlers = [QUEUE, 'noop'].map((type) =>
    defineJob<{ n: number }>(type).handle(async ({ n }) => {
      ran.push(n)
    }),
  )
  const { ready, scheduled } = await holdfast.stats()
  expect(ready + scheduled).toBe(count)
  const worker = holdfast.worker({ queues: [QUEUE, 'default'], concurrency: 10, handlers })
  await worker.start()
  await expect.poll(() => ran.length, { timeout: 20_000 }).toBe(count)
  await worker.stop()
  return ran
}

/** Numbers from 0, in order. */
export function numbers(count: number): number[] {
  return Array.from({ length: count }, (_, n) => n)
}

export function sorted(all: readonly number[]): number[] {
  return [...all].sort((one, other) => one - other)
}
