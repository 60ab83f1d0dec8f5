// Rows written in bulk for large tables are the same as the product's own.

import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { seedFinished, seedReady, seedScheduled } from '../../lab/bench/growth/seed.js'
import { PAYLOAD } from '../../lab/bench/payloads.js'
import { seedHeld } from '../../lab/experiments/seed-held.js'
import { connect, defineJob, type Holdfast } from '../../src/index.js'
import { testServerUrl } from '../support/postgres.js'

const DATABASE = 'lab_seed'
const noop = defineJob<object>('noop')
// What differs from one job to the next.
const OWN = ['id', 'position', 'created_at', 'since', 'run_at', 'finished_at', 'started_at', 'fence', 'worker']

let server: pg.Client
let client: pg.Client
let holdfast: Holdfast

beforeAll(async () => {
  server = new pg.Client({ connectionString: testServerUrl() })
  await server.connect()
  await server.query(`DROP DATABASE IF EXISTS ${DATABASE} WITH (FORCE)`)
  await server.query(`CREATE DATABASE ${DATABASE}`)
  const url = new URL(testServerUrl())
  url.pathname = `/${DATABASE}`
  holdfast = await connect(url.href, { upkeep: false })
  client = new pg.Client({ connectionString: url.href })
  await client.connect()
})

afterAll(async () => {
  await holdfast.close()
  await client.end()
  await server.query(`DROP DATABASE IF EXISTS ${DATABASE} WITH (FORCE)`)
  await server.end()
})

/** The rows of a table, in which a job's own values are reduced to whether they are present. */
async function rowsOf(table: string): Promise<object[]> {
  const { rows } = await client.query(`SELECT * FROM holdfast.${table}`)
  return rows.map((row: Record<string, unknown>) =>
    Object.fromEntries(Object.entries(row).map(([key, value]) => [key, OWN.includes(key) ? value !== null : value])),
  )
}

async function empty(): Promise<void> {
  for (const table of ['jobs', 'ready', 'scheduled', 'finished', 'held', 'arrivals'])
    await client.query(`DELETE FROM holdfast.${table}`)
}

describe('seeded rows', () => {
  test('of ready jobs are those of enqueueMany, in the order of their ids', async () => {
    await empty()
    await holdfast.enqueueMany(noop, [PAYLOAD])
    await seedReady(client, 1_203)

    const [jobs, ready] = [await rowsOf('jobs'), await rowsOf('ready')]
    const { rows } = await client.query(`
      SELECT count(*)::integer AS count, count(DISTINCT position)::integer AS places,
             (count(*) FILTER (WHERE id < before))::integer AS disorder
        FROM (SELECT id, position, lag(id) OVER (ORDER BY position) AS before FROM holdfast.ready) AS line`)

    expect(rows).toEqual([{ count: 1_204, places: 1_204, disorder: 0 }])
    for (const row of jobs) expect(row).toEqual(jobs[0])
    for (const row of ready) expect(row).toEqual(ready[0])
  })

  test('of jobs of a group are those of enqueueMany, with an event for each batch', async () => {
    await empty()
    await holdfast.enqueueMany(noop, [PAYLOAD], { queue: 'grouped', group: 'a "b"' })
    await seedHeld(client, { queue: 'grouped', group: 'a "b"', jobs: 1_203 })

    const [jobs, held, arrivals] = [await rowsOf('jobs'), await rowsOf('held'), await rowsOf('arrivals')]

    expect([jobs.length, held.length, arrivals.length]).toEqual([1_204, 1_204, 4])
    for (const row of jobs) expect(row).toEqual(jobs[0])
    for (const row of held) expect(row).toEqual(held[0])
    for (const row of arrivals) expect({ ...row, turn: null }).toEqual({ ...arrivals[0], turn: null })
  })

  test('of scheduled jobs are those of an enqueue with a delay, and lie in the future', async () => {
    await empty()
    await holdfast.enqueue(noop, PAYLOAD, { delay: '2h' })
    await seedScheduled(client, 100)

    const [jobs, scheduled] = [await rowsOf('jobs'), await rowsOf('scheduled')]
    const { rows } = await client.query('SELECT FROM holdfast.scheduled WHERE run_at < now()')

    expect(scheduled).toHaveLength(101)
    expect(rows).toHaveLength(0)
    for (const row of jobs) expect(row).toEqual(jobs[0])
    for (const row of scheduled) expect(row).toEqual(scheduled[0])
  })

  test('of finished jobs are those of jobs that succeeded, each in the partition of its day', async () => {
    await empty()
    const { id } = await holdfast.enqueue(noop, PAYLOAD)
    const worker = holdfast.worker({ handlers: [noop.handle(() => undefined)] })
    await worker.start()
    await holdfast.wait(id, { timeout: '10s' })
    await worker.stop()
    await seedFinished(client, 100, 3)

    const [jobs, finished] = [await rowsOf('jobs'), await rowsOf('finished')]
    const { rows } = await client.query('SELECT FROM holdfast.jobs_rest')

    expect(finished).toHaveLength(101)
    expect(rows).toHaveLength(0)
    for (const row of jobs) expect(row).toEqual(jobs[0])
    for (const row of finished) expect(row).toEqual(finished[0])
  })

  test('are spread over the queues, which then exist, and can be drained', async () => {
    await empty()
    const names = ['left', 'right', 'middle']
    await seedReady(client, 600, names)

    const counts = await Promise.all(names.map(async (name) => (await holdfast.stats(name)).ready))
    let handled = 0
    const all = new Promise<void>((resolve) => {
      const worker = holdfast.worker({
        queues: names,
        handlers: [
          noop.handle(() => {
            if (++handled === 600) resolve()
          }),
        ],
      })
      void worker.start()
    })
    await all

    expect(counts).toEqual([200, 200, 200])
    expect((await holdfast.queues()).map(({ name }) => name)).toEqual(expect.arrayContaining(names))
  })
})
