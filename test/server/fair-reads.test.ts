// What one key asks for must not hold up the others: keys are looked up apart, searches wait for their turn, counts are shared.

import { get as httpGet } from 'node:http'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Store } from '../../src/core/store.js'
import { openHoldfast } from '../../src/index.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { systemPorts } from '../../src/system-ports.js'
import { dropSchema, testServerUrl } from '../support/postgres.js'
import { TestServer } from './support.js'

const schema = `fair_looks_${process.pid}`

describe('during a slow search', () => {
  let server: TestServer
  let sql: pg.Client
  let searcher: string
  let other: string

  beforeAll(async () => {
    server = await TestServer.open({}, await postgresStore(testServerUrl(), { schema }))
    sql = new pg.Client({ connectionString: testServerUrl() })
    await sql.connect()
    searcher = await server.key(['read'], ['theirs'])
    other = await server.key(['read', 'enqueue'], ['mine'])
    await server.holdfast.enqueue('x', null, { queue: 'theirs' })
  })

  afterAll(async () => {
    await sql.end()
    await server.close()
    await dropSchema(testServerUrl(), schema)
  })

  const waiting = `SELECT FROM pg_locks WHERE NOT granted AND relation = '${schema}.attempts'::regclass`
  const waits = (count: number, timeout = 20_000) =>
    expect.poll(async () => (await sql.query(waiting)).rowCount, { interval: 20, timeout }).toBe(count)

  /** Holds up every search that asks for errors, as a slow one would, until `work` is done. */
  async function whileSearchesWait<T>(work: () => Promise<T>): Promise<T> {
    await sql.query(`BEGIN; LOCK TABLE ${schema}.attempts IN ACCESS EXCLUSIVE MODE`)
    try {
      return await work()
    } finally {
      await sql.query('ROLLBACK')
    }
  }

  const search = () => server.as(searcher, 'GET', '/v1/jobs?filter=error:boom')

  test('another key enqueues, is authenticated, and reads its counts', async () => {
    const { searches, answers } = await whileSearchesWait(async () => {
      const searches = Array.from({ length: 10 }, search)
      await waits(1)
      const body = { type: 'x', queue: 'mine' }
      return {
        searches,
        answers: [
          await server.as(other, 'POST', '/v1/jobs', { body }),
          await server.as(other, 'GET', '/stats?queue=mine'),
          await server.as(other, 'GET', '/v1/queues'),
          await server.as('hf_000000000000_'.padEnd(59, 'x'), 'GET', '/v1/queues'),
        ],
      }
    })

    expect(answers.map(({ status }) => status)).toEqual([201, 200, 200, 401])
    await Promise.all(searches)
  })

  test('a key with too many searches is refused until some are done', async () => {
    const searches = await whileSearchesWait(async () => {
      const asked = Array.from({ length: 60 }, search)
      const first = await Promise.race(asked)
      expect([first.status, first.json.code, first.headers.get('retry-after')]).toEqual([429, 'too_many_requests', '1'])
      return asked
    })

    const statuses = new Set((await Promise.all(searches)).map(({ status }) => status))
    expect([...statuses].sort()).toEqual([200, 429])
    expect((await search()).status).toBe(200)
  }, 60_000)

  test('a search whose client disconnected is ended in the store, and the next one runs', async () => {
    await whileSearchesWait(async () => {
      const headers = { authorization: `Bearer ${searcher}` }
      const request = httpGet(`${server.listening.url}/v1/jobs?filter=error:boom`, { headers }).on('error', () => {})
      await waits(1)

      request.destroy()

      // The lock is still held, and the server's own timeout would come after 2 s.
      await waits(0, 1_500)
    })

    expect((await search()).status).toBe(200)
  }, 30_000)
})

describe('counts and keys', () => {
  function counted(): { readonly store: Store; readonly calls: Map<string, number> } {
    const store = memoryStore({ clock: systemPorts.clock })
    const calls = new Map<string, number>()
    const counting = <Args extends unknown[], T>(name: string, call: (...args: Args) => T) => {
      return (...args: Args) => {
        calls.set(name, (calls.get(name) ?? 0) + 1)
        return call(...args)
      }
    }
    return {
      calls,
      store: {
        ...store,
        findKey: counting('findKey', store.findKey),
        stats: counting('stats', store.stats),
        overview: counting('overview', store.overview),
      },
    }
  }

  test('fifty readers share one computation of the counts, and one read of their key', async () => {
    const { store, calls } = counted()
    const server = await TestServer.open({}, store)
    const key = await server.key(['read'])

    const asked = Array.from({ length: 50 }, () => [
      server.as(key, 'GET', '/stats'),
      server.as(key, 'GET', '/v1/queues'),
    ])
    const statuses = new Set((await Promise.all(asked.flat())).map(({ status }) => status))
    await server.close()

    expect([...statuses]).toEqual([200])
    // The machine may be slow enough for a second round.
    expect(calls.get('findKey')).toBeLessThan(5)
    expect(calls.get('stats')).toBeLessThan(5)
    expect(calls.get('overview')).toBeLessThan(5)
  })

  test('a key revoked by another process works for 5 s at most, one revoked here not at all', async () => {
    const store = memoryStore({ clock: systemPorts.clock })
    let nowMs = systemPorts.clock.monotonic()
    const clock = { now: systemPorts.clock.now, monotonic: () => nowMs }
    const holdfast = await openHoldfast(store, { upkeep: false, ports: { ...systemPorts, clock } })
    const elsewhere = await openHoldfast(store, { upkeep: false })
    const [one, two] = [
      await holdfast.createKey({ name: 'a', scopes: ['read'] }),
      await holdfast.createKey({ name: 'b', scopes: ['read'] }),
    ]
    expect([await holdfast.authenticate(one.secret), await holdfast.authenticate(two.secret)]).not.toContain(null)

    await elsewhere.revokeKey(one.key.id)
    await holdfast.revokeKey(two.key.id)

    expect(await holdfast.authenticate(two.secret)).toBeNull()
    nowMs += 5_000
    expect(await holdfast.authenticate(one.secret)).toBeNull()
    await Promise.all([holdfast.close(), elsewhere.close()])
  })

  test('a key created elsewhere after its id was asked for works a second later', async () => {
    const store = memoryStore({ clock: systemPorts.clock })
    let nowMs = systemPorts.clock.monotonic()
    const clock = { now: systemPorts.clock.now, monotonic: () => nowMs }
    const holdfast = await openHoldfast(store, { upkeep: false, ports: { ...systemPorts, clock } })
    const elsewhere = await openHoldfast(store, { upkeep: false })
    const { key, secret } = await elsewhere.createKey({ name: 'a', scopes: ['read'] })
    const late = { ...store, findKey: async () => null }
    const unaware = await openHoldfast(late, { upkeep: false, ports: { ...systemPorts, clock } })
    expect(await unaware.authenticate(secret)).toBeNull()
    late.findKey = store.findKey as never

    nowMs += 1_000

    expect((await unaware.authenticate(secret))?.id).toBe(key.id)
    await Promise.all([holdfast.close(), elsewhere.close(), unaware.close()])
  })
})
