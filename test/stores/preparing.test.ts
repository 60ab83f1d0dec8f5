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

test('statements of one exchange are prepared each under its own name, those beside one that failed too', async () => {
  const group = new LaneGroup()
  const lane = new Lane({
    settings: async () => ({ connectionString: url }),
    purpose: 'test',
    connectMs: 10_000,
    group,
  })
  const query = (name: string, text: string, value: number) => ({ name, text, values: [value] })
  const first = query('first', 'SELECT $1::integer', 1)
  const quotient = (divisor: number) => query('quotient', 'SELECT 6 / $1::integer', divisor)
  const last = query('last', `INSERT INTO public.${table} VALUES ($1) RETURNING n`, 7)
  const together = (divisor: number) => lane.queryTogether([first, quotient(divisor), last], 10_000)
  await lane.query({ name: '', text: 'SELECT 1', values: [] }, 10_000)

  const [failed, alone] = await Promise.allSettled([together(0), lane.query(first, 10_000)])
  const answers = [await together(2), await together(3)]

  expect(failed).toMatchObject({ status: 'rejected', reason: { details: { sqlState: '22012' } } })
  expect(alone).toMatchObject({ value: [['1']] })
  expect(answers).toEqual([
    [[['1']], [['3']], [['7']]],
    [[['1']], [['2']], [['7']]],
  ])
  const names = await lane.query(
    { name: '', text: 'SELECT name FROM pg_prepared_statements ORDER BY 1', values: [] },
    10_000,
  )
  expect(names).toEqual([['first'], ['last'], ['quotient']])
  expect(group.prepares).toBe(true)
  expect((await sql.query(`SELECT FROM public.${table}`)).rowCount).toBe(2)
  await lane.close()
})

test('a statement of an exchange that could not be parsed is parsed again the next time', async () => {
  const group = new LaneGroup()
  const lane = new Lane({
    settings: async () => ({ connectionString: url }),
    purpose: 'test',
    connectMs: 10_000,
    group,
  })
  const one = { name: 'one', text: 'SELECT 1', values: [] }
  const later = { name: 'later', text: `SELECT n FROM public.${table}_later`, values: [] }
  await lane.query({ name: '', text: 'SELECT 1', values: [] }, 10_000)
  const refused = await lane.queryTogether([one, later], 10_000).catch((error) => error.details.sqlState)
  await sql.query(`CREATE TABLE public.${table}_later (n integer)`)

  const answer = await lane.queryTogether([one, later], 10_000)
  await sql.query(`DROP TABLE public.${table}_later`)

  expect([refused, answer, group.prepares]).toEqual(['42P01', [[['1']], []], true])
  await lane.close()
})
