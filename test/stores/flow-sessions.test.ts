// A claim of a queue with flow control is exact only at READ COMMITTED: its looks must be newer than its lock. Our sessions see to that,
// whatever the role's default, and also where a pooler drops what was said at the start.

import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { PgBouncer } from '../../lab/servers/pgbouncer.js'
import { PostgresServer } from '../../lab/servers/postgres.js'
import { NO_GROUP_SETTINGS, NO_QUEUE_FLOW } from '../../src/core/flow/settings.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { newJob, QUEUE, succeeded } from '../../src/testing/store-suite/samples.js'
import { claimJobs } from '../../src/testing/store-suite/steps.js'

const ROLE = 'strict'
const LATER_MS = 60_000
let server: PostgresServer
let sql: pg.Client

beforeAll(async () => {
  server = await PostgresServer.open({ settings: { fsync: 'off' } })
  sql = new pg.Client({ connectionString: server.url })
  await sql.connect()
  await sql.query(`CREATE ROLE ${ROLE} LOGIN SUPERUSER`)
  await sql.query(`ALTER ROLE ${ROLE} SET default_transaction_isolation = 'repeatable read'`)
}, LATER_MS)

afterAll(async () => {
  await sql.end()
  await server.close()
}, LATER_MS)

describe('a role whose transactions are repeatable read', () => {
  test.each(['direct', 'behind a pooler'] as const)(
    '%s: groups keep to their bound',
    { timeout: LATER_MS },
    async (way) => {
      const settings = { ignore_startup_parameters: 'options' }
      const pooler =
        way === 'direct' ? null : await PgBouncer.open({ target: server.port, poolSize: 5, users: [ROLE], settings })
      const url = `postgres://${ROLE}@127.0.0.1:${pooler?.port ?? server.port}/postgres`
      const [store, other] = [await postgresStore(url, { schema: ROLE }), await postgresStore(url, { schema: ROLE })]
      const groups = { ...NO_GROUP_SETTINGS, concurrency: 1 }
      await store.setQueue(QUEUE, { limits: {}, flow: { ...NO_QUEUE_FLOW, groups } }, 'ada')
      await store.enqueue(Array.from({ length: 6 }, () => newJob({ flow: { group: 'acme', limits: [], cost: 1 } })))

      const counts: number[] = []
      for (let round = 0; round < 6; round++) {
        const claimed = (await Promise.all([claimJobs(store), claimJobs(other)])).flat()
        counts.push(claimed.length)
        await store.settle(claimed.map((job) => succeeded(job)))
      }
      await Promise.all([store.close(), other.close()])
      await pooler?.close()
      await sql.query(`DROP SCHEMA ${ROLE} CASCADE`)

      expect(counts).toEqual([1, 1, 1, 1, 1, 1])
    },
  )
})
