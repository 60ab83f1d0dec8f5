// Reports of what became of jobs, beside claims of the same limits: claims lock them, so a report must not hold them longer than one statement
// takes. A worker that is stopped, or has no processor time, would stop all claims of a queue.

import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { NO_LIMIT } from '../../src/core/flow/settings.js'
import type { Store } from '../../src/core/store.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { dropSchema, testServerUrl } from '../support/postgres.js'

const url = testServerUrl()
const schema = `flow_outcomes_${process.pid}`
const LATER_MS = 60_000
const BREAKER = { failures: 0.5, of: 1_000, withinMs: 600_000, cooldownMs: 5_000, probes: 2 }
const REPORTS = 25

let sql: pg.Client
const stores: Store[] = []

beforeAll(async () => {
  sql = new pg.Client({ connectionString: url })
  await sql.connect()
  for (let index = 0; index < 4; index++) stores.push(await postgresStore(url, { schema }))
  const [store] = stores
  await store!.setLimit('bounded', { ...NO_LIMIT, concurrency: 5 }, 'ada', 'operator')
  await store!.setLimit('broken', { ...NO_LIMIT, breaker: BREAKER }, 'ada', 'operator')
}, LATER_MS)

afterAll(async () => {
  await Promise.all(stores.map((store) => store.close()))
  await sql.end()
  await dropSchema(url, schema)
}, LATER_MS)

const ok = (limit: string) => ({ limit, ok: 1, failed: 0, overloaded: 0 })

test(
  'a limit without a breaker or adaptive concurrency is not locked for a report',
  async () => {
    await sql.query('BEGIN')
    await sql.query(`SELECT FROM "${schema}".limits WHERE name = 'bounded' FOR NO KEY UPDATE`)

    const moves = await stores[0]!.observe([ok('bounded')])
    await sql.query('COMMIT')

    expect(moves).toEqual([])
  },
  LATER_MS,
)

test(
  'reports at the same time are all counted',
  async () => {
    await Promise.all(
      stores.map(async (store) => {
        for (let number = 0; number < REPORTS; number++) await store.observe([ok('broken'), ok('bounded')])
      }),
    )

    const counted = await sql.query(
      `SELECT sum((second.value ->> 'ok')::integer)::integer AS ok
         FROM "${schema}".limits, json_each(limits.outcomes::json) AS second WHERE limits.name = 'broken'`,
    )
    expect(counted.rows).toEqual([{ ok: stores.length * REPORTS }])
  },
  LATER_MS,
)

test(
  'a report opens no transaction in which it could be stopped',
  async () => {
    const { hostname, port } = new URL(url)
    const sent: string[] = []
    const proxy = createServer((client) => {
      const server = connect(Number(port), hostname)
      client.on('data', (data) => sent.push(data.toString('latin1')))
      client.pipe(server).pipe(client)
      for (const socket of [client, server]) socket.on('error', () => socket.destroy())
    })
    await once(proxy.listen(0, '127.0.0.1'), 'listening')
    const through = new URL(url)
    through.port = String((proxy.address() as AddressInfo).port)
    const store = await postgresStore(through.href, { schema })
    sent.length = 0

    await store.observe([ok('broken'), ok('bounded')])

    const text = sent.join('')
    await store.close()
    proxy.close()
    expect(text).toContain('keep_breaker')
    expect(text).not.toContain('BEGIN')
  },
  LATER_MS,
)
