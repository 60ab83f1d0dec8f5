// Settings of a role that change how the server reads arrays and strings: our sessions say their own, also where a pooler drops
// what was said at the start.

import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { PgBouncer } from '../../lab/servers/pgbouncer.js'
import { PostgresServer } from '../../lab/servers/postgres.js'
import { connect, defineJob } from '../../src/index.js'

const ROLE = 'odd'
let server: PostgresServer
let sql: pg.Client

beforeAll(async () => {
  server = await PostgresServer.open({ settings: { fsync: 'off' } })
  sql = new pg.Client({ connectionString: server.url })
  await sql.connect()
  await sql.query(`CREATE ROLE ${ROLE} LOGIN SUPERUSER`)
  await sql.query(`ALTER ROLE ${ROLE} SET array_nulls = off`)
  await sql.query(`ALTER ROLE ${ROLE} SET standard_conforming_strings = off`)
}, 60_000)

afterAll(async () => {
  await sql.end()
  await server.close()
}, 60_000)

const urlAt = (port: number) => `postgres://${ROLE}@127.0.0.1:${port}/postgres`

// F46 of docs/findings/chaos.md.
describe('a role with array_nulls and standard_conforming_strings off', () => {
  test.each(['direct', 'behind a pooler'] as const)(
    '%s: jobs are enqueued, run, listed and searched',
    async (way) => {
      const settings = { ignore_startup_parameters: 'options' }
      const pooler =
        way === 'direct' ? null : await PgBouncer.open({ target: server.port, poolSize: 5, users: [ROLE], settings })
      const holdfast = await connect(urlAt(pooler?.port ?? server.port), { schema: 'odd' })
      const work = defineJob<{ text: string }>('work')
      const text = 'a \\ " \\u0041 \\\\ é'

      const plain = await holdfast.enqueue(work, { text })
      const timed = await holdfast.enqueue(
        work,
        { text },
        { delay: '1ms', idempotencyKey: 'NULL', tags: ['NULL', 'x'] },
      )
      const after = await holdfast.enqueue(work, { text }, { after: [plain.id], queue: 'later' })
      const seen: string[] = []
      const worker = holdfast.worker({
        queues: ['default', 'later'],
        handlers: [work.handle((payload) => void seen.push(payload.text))],
      })
      await worker.start()
      for (const { id } of [plain, timed, after]) await holdfast.wait(id, { timeout: '20s' })
      const found = await holdfast.list({ filter: { payload: [{ path: ['text'], anyOf: [text] }] } })
      const other = await holdfast.list({ filter: 'queue:lat* tag:x,y state:succeeded' })
      const tagged = await holdfast.list({ filter: 'tag:NULL queue:def*' })
      await holdfast.close()
      await pooler?.close()
      await sql.query('DROP SCHEMA odd CASCADE')

      expect(seen).toEqual([text, text, text])
      expect(found.jobs).toHaveLength(3)
      expect(other.jobs).toEqual([])
      expect(tagged.jobs.map(({ id, tags }) => [id, tags])).toEqual([[timed.id, ['NULL', 'x']]])
    },
    60_000,
  )

  test('a caller’s own transaction: strings do no harm, and array_nulls = off is refused with what to do', async () => {
    const holdfast = await connect(urlAt(server.port), { schema: 'own_odd', upkeep: false })
    const client = new pg.Client({ connectionString: urlAt(server.port) })
    await client.connect()

    await client.query('BEGIN')
    const refused = await holdfast
      .enqueue('work', {}, { tx: client, idempotencyKey: 'one' })
      .catch((error: Error) => error)
    await client.query('ROLLBACK')
    await client.query('BEGIN')
    await client.query('SET LOCAL array_nulls = on')
    const made = await holdfast.enqueue('work', { text: '\\' }, { tx: client, idempotencyKey: 'one', tags: ['\\'] })
    await client.query('COMMIT')
    const job = await holdfast.get(made.id)
    await client.end()
    await holdfast.close()

    expect(refused).toMatchObject({ code: 'invalid_option' })
    expect((refused as Error).message).toContain('array_nulls = off')
    expect((refused as Error).message).toContain('SET LOCAL array_nulls = on')
    expect(job).toMatchObject({ payload: { text: '\\' }, tags: ['\\'], state: 'ready' })
  })
})
