// Statements are prepared, and a failure to prepare one is not taken for a pooler that forgets them for good.

import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Lane } from '../../src/stores/postgres/lane.js'
import { LaneGroup } from '../../src/stores/postgres/lane-group.js'
import { testServerUrl } from '../support/postgres.js'

const url = testServerUrl()
const table = `preparing_${randomBytes(4).toString('hex')}`
let sql: pg.Client

beforeAll(async () => {
  sql = new pg.Client({ connectionString: url })
  await sql.connect()
  await sql.query(`CREATE TABLE public.${table} (n integer)`)
})

afterAll(async () => {
  await sql.query(`DROP TABLE public.${table}`)
  await sql.end()
})

test('statements that met a locked table when they were prepared are prepared later', async () => {
  const group = new LaneGroup({ unpreparedMs: 1 })
  const settings = async () => ({ connectionString: url })
  const session = { lock_timeout: '20ms' }
  const lane = new Lane({ settings, purpose: 'test', connectMs: 10_000, group, session })
  const count = () =>
    lane.query({ name: 'count_all', text: `SELECT count(*) FROM public.${table}`, values: [] }, 10_000)
  const prepared = () => lane.query({ name: '', text: 'SELECT name FROM pg_prepared_statements', values: [] }, 10_000)
  await lane.query({ name: '', text: 'SELECT 1', values: [] }, 10_000)
  await sql.query(`BEGIN; LOCK TABLE public.${table}`)
  // Both are sent before the first is answered: the second names a statement that was never prepared.
  const refused = await Promise.allSettled([count(), count()])
  await sql.query('COMMIT')

  await expect.poll(async () => [await count(), await prepared()]).toEqual([[['0']], [['count_all']]])
  expect(refused.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
  await lane.close()
})
