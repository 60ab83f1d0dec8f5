// What `doctor` finds on real Redis servers: replicas that are missing, and a disk that was full. And the outbox of commands.

import { spawnSync } from 'node:child_process'
import { afterEach, expect, test } from 'vitest'
import { FillableDisk } from '../../lab/servers/fillable-disk.js'
import type { RedisServer } from '../../lab/servers/redis.js'
import { type Check, checksOf } from '../../src/cli/doctor/checks.js'
import type { Store } from '../../src/core/store.js'
import { redisStore } from '../../src/stores/redis/index.js'
import { codeOf, enqueueJob } from '../../src/testing/store-suite/steps.js'
import { openRedis } from '../support/redis.js'
import { makeProject, run } from './support.js'

const opened: { close(): Promise<void> }[] = []

afterEach(async () => {
  for (const each of opened.splice(0).reverse()) await each.close()
})

async function serve(flags: Readonly<Record<string, string>> = {}): Promise<RedisServer> {
  const server = await openRedis({ appendonly: 'yes', ...flags })
  opened.push(server)
  return server
}

async function open(server: RedisServer): Promise<Store> {
  const store = await redisStore(server.url)
  opened.push(store)
  return store
}

function cli(server: RedisServer, ...words: string[]): string {
  return spawnSync('redis-cli', ['-p', String(server.port), ...words], { encoding: 'utf8' }).stdout.trim()
}

async function replicasSeen(server: RedisServer, count: number): Promise<void> {
  const seen = () => Number(/connected_slaves:(\d+)/.exec(cli(server, 'info', 'replication'))?.[1])
  await expect.poll(seen, { timeout: 20_000, interval: 50 }).toBe(count)
}

async function checkOf(store: Store, name: string): Promise<Check | undefined> {
  const facts = { migrations: null, health: await store.health(), clockOffsetMs: 0, overview: null }
  return checksOf(facts).find((check) => check.name === name)
}

test('doctor says whether a server has the replicas that writes wait for', { timeout: 60_000 }, async () => {
  const primary = await serve()
  await (await open(primary)).health()
  await serve({ replicaof: `127.0.0.1 ${primary.port}` })
  await replicasSeen(primary, 1)
  const doctor = async (...args: string[]) => {
    const { stdout, code } = await run(['doctor', ...args], { env: { HOLDFAST_URL: primary.url } })
    return [/^(.*?) +replicas +(.*)$/m.exec(stdout)?.slice(1, 3), code]
  }

  expect(await doctor()).toEqual([['ok', '1 connected'], 0])
  expect(await doctor('--durability', 'replicated')).toEqual([
    ['warning', '1 connected, and durability "replicated" waits for 1: the loss of one stops all writes'],
    0,
  ])
  expect(await doctor('--durability', 'replicated', '--replicas', '2')).toEqual([
    ['FAILED', '1 connected, and durability "replicated" waits for 2: every write is refused'],
    7,
  ])

  await serve({ replicaof: `127.0.0.1 ${primary.port}` })
  await replicasSeen(primary, 2)
  expect(await doctor('--durability', 'replicated')).toEqual([
    ['ok', '2 connected, and durability "replicated" waits for 1: writes go on while 1 is away'],
    0,
  ])
})

const disk = await FillableDisk.open()
if (disk !== null) await disk.close()

test.skipIf(disk === null)('doctor names a full disk, and what is to be done when it was one', async () => {
  const full = (await FillableDisk.open())!
  opened.push(full)
  const server = await serve({ dir: full.folder, save: '' })
  const store = await open(server)
  expect(await checkOf(store, 'disk')).toMatchObject({ level: 'ok' })

  await full.fill()
  const codes = async () => codeOf(enqueueJob(store, { payload: JSON.stringify('x'.repeat(20_000)) }))
  await expect.poll(codes, { timeout: 20_000, interval: 20 }).toBe('store_unavailable')

  const file = await checkOf(store, 'append-only file')
  expect(file).toMatchObject({ level: 'failed', fix: ['redis-cli BGREWRITEAOF', 'redis-cli INFO persistence'] })
  expect(file!.text).toMatch(/disk is full: every write is refused \(MISCONF\)/)

  await full.free()
  await expect.poll(codes, { timeout: 20_000, interval: 20 }).not.toBe('store_unavailable')

  expect(await checkOf(store, 'append-only file')).toMatchObject({ level: 'ok' })
  const left = await checkOf(store, 'disk')
  expect(left).toMatchObject({ level: 'warning', fix: ['redis-cli BGREWRITEAOF', 'redis-cli CONFIG RESETSTAT'] })
  expect(left!.text).toMatch(/^\d+ calls? (was|were) refused/)

  cli(server, 'bgrewriteaof')
  cli(server, 'config', 'resetstat')
  expect(await checkOf(store, 'disk')).toMatchObject({ level: 'ok' })
})

test('an outbox that is typed for another store is a usage error, and so is one that is no PostgreSQL', async () => {
  const cwd = await makeProject()
  const outbox = 'postgres://app@127.0.0.1:1/shop'

  const elsewhere = await run(['stats', '--url', 'postgres://127.0.0.1:1/app', '--outbox', outbox], { cwd })
  const wrong = await run(['stats', '--url', 'redis://127.0.0.1:1', '--outbox', 'mysql://db/shop'], { cwd })
  const dev = await run(['dev', '--outbox', outbox], { cwd })
  const ofAll = await run(['stats', '--url', 'postgres://127.0.0.1:1/app'], { cwd, env: { HOLDFAST_OUTBOX: outbox } })

  expect([elsewhere.code, wrong.code, dev.code, ofAll.code]).toEqual([2, 2, 2, 4])
  expect(elsewhere.stderr).toContain('--outbox is for a store on Redis, and this one is postgres')
  expect(dev.stderr).toContain('--outbox is for a store on Redis, and this one is embedded')
  expect(wrong.stderr).toContain('outbox must be a URL such as postgres://')
})
