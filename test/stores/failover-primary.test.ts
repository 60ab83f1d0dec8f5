// A store with several servers goes to the primary, whichever that is, and never to one that used to be.

import pg from 'pg'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { freePort } from '../../lab/servers/postgres.js'
import { PostgresPair } from '../../lab/servers/standby.js'
import { connect, type Holdfast } from '../../src/index.js'

let pair: PostgresPair
const opened: Holdfast[] = []

beforeEach(async () => {
  pair = await PostgresPair.open({ settings: { fsync: 'off' } })
}, 60_000)

afterEach(async () => {
  await Promise.all(opened.splice(0).map((holdfast) => holdfast.close()))
  await pair.close()
}, 60_000)

function hosts(): string[] {
  return [pair.standby, pair.primary].map(({ port }) => `127.0.0.1:${port}`)
}

async function open(url: string, options: Parameters<typeof connect>[1] = {}): Promise<Holdfast> {
  const holdfast = await connect(url, { upkeep: false, ...options })
  opened.push(holdfast)
  return holdfast
}

async function ask(url: string, text: string): Promise<unknown> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query({ text, rowMode: 'array' })).rows[0]?.[0]
  } finally {
    await client.end()
  }
}

const OURS = "SELECT count(*)::int FROM pg_stat_activity WHERE application_name LIKE 'holdfast%'"

describe('a store with several servers', () => {
  test('finds the primary, by URL and by a list of hosts, also when one of them is away', async () => {
    const [standby, primary] = hosts()
    const away = `127.0.0.1:${await freePort()}`
    const byUrl = await open(
      `postgres://holdfast@${standby},${away},${primary}/postgres?target_session_attrs=read-write`,
    )
    const byList = await open('postgres://holdfast@ignored/postgres', { hosts: [standby!, primary!] })

    const { id } = await byUrl.enqueue('work')

    expect((await byList.get(id))?.id).toBe(id)
    expect(await ask(pair.standby.url, OURS)).toBe(0)
  }, 30_000)

  test('goes to the promoted one within two seconds of its first answer', async () => {
    const holdfast = await open(`postgres://holdfast@${hosts().join(',')}/postgres`)
    await holdfast.enqueue('work')
    await pair.caughtUp()

    await pair.failOver()
    const answersFromMs = performance.now()
    const { id } = await holdfast.enqueue('work')
    const tookMs = performance.now() - answersFromMs

    expect(tookMs).toBeLessThan(2_000)
    expect(await ask(pair.primary.url, `SELECT count(*)::int FROM holdfast.jobs WHERE id = '${id}'`)).toBe(1)
  }, 30_000)

  test('leaves a server that turns read-only and keeps its sockets, with every connection', async () => {
    const holdfast = await open(`postgres://holdfast@${hosts().join(',')}/postgres`)
    await holdfast.enqueue('work')
    await holdfast.list({})
    await pair.caughtUp()
    const old = pair.primary

    await pair.promote()
    await pair.refuseWrites(old)
    await holdfast.enqueue('work')
    await holdfast.list({})

    await expect.poll(() => ask(old.url, OURS)).toBe(0)
  }, 30_000)

  test('waits where none of them takes writes, and says so', async () => {
    const standby = `127.0.0.1:${pair.standby.port}`
    const refused = await connect(
      `postgres://holdfast@${standby},${standby.replace('127.0.0.1', 'localhost')}/postgres`,
    ).catch((error) => error)

    expect(refused).toMatchObject({ code: 'store_read_only', retryable: true })
    expect(refused.message).toContain('is a standby')
  }, 30_000)

  test('never goes back to the old primary, also when that is the only one that answers', async () => {
    const holdfast = await open(`postgres://holdfast@${hosts().join(',')}/postgres`, { enqueueTimeout: '1500ms' })
    await holdfast.enqueue('work')
    await pair.caughtUp()
    const old = pair.primary
    await pair.failOver()
    await holdfast.enqueue('work')
    await old.start()
    await pair.primary.stop('SIGKILL')

    const error = await holdfast.enqueue('work').catch((thrown) => thrown)

    expect(error).toMatchObject({ code: 'store_unavailable', cause: { code: 'store_stale' } })
    expect(await ask(old.url, 'SELECT count(*)::int FROM holdfast.jobs')).toBe(1)
    await pair.primary.start()
    await holdfast.enqueue('work')
    expect(await ask(pair.primary.url, 'SELECT count(*)::int FROM holdfast.jobs')).toBe(3)
  }, 30_000)
})

describe('a store with one address', () => {
  test('refuses the old primary there once it has seen the new one', async () => {
    const { FaultProxy } = await import('../../lab/chaos/proxy.js')
    const proxy = await FaultProxy.open(pair.primary.port)
    const holdfast = await open(proxy.url, { enqueueTimeout: '1s' })
    await holdfast.enqueue('work')
    await pair.caughtUp()
    const old = pair.primary
    await pair.promote()
    proxy.retarget(pair.primary.port)
    proxy.cutAll()
    await holdfast.enqueue('work')
    proxy.retarget(old.port)
    proxy.cutAll()

    const error = await holdfast.enqueue('work').catch((thrown) => thrown)

    expect(error.cause).toMatchObject({ code: 'store_stale', retryable: true })
    expect(error.cause.message).toContain('is of timeline 1, and timeline 2 of the same cluster was seen before')
    expect(await ask(old.url, 'SELECT count(*)::int FROM holdfast.jobs')).toBe(1)
    await proxy.close()
  }, 30_000)
})
