// Limits under concurrent claims, with backends that are killed in the middle of them: none is ever passed, and no job is left behind.

import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Store } from '../../src/core/store.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { dropSchema, testServerUrl } from '../support/postgres.js'
import { enqueueSurely, keepUp, OF_QUEUE, prepare, SHARED, work } from './flow-crowd.js'

const url = testServerUrl()
const schema = `flow_limits_${process.pid}`
const LATER_MS = 60_000
const DEADLINE_MS = 45_000
const JOBS = 1_500

let sql: pg.Client
let watcher: pg.Client
const stores: Store[] = []

beforeAll(async () => {
  sql = new pg.Client({ connectionString: url })
  watcher = new pg.Client({ connectionString: url })
  await Promise.all([sql.connect(), watcher.connect()])
  for (let index = 0; index < 4; index++) stores.push(await postgresStore(url, { schema }))
}, LATER_MS)

afterAll(async () => {
  await Promise.all(stores.map((store) => store.close()))
  await Promise.all([sql.end(), watcher.end()])
  await dropSchema(url, schema)
})

// Everything that runs at one moment, as one snapshot sees it.
const OVER = `
SELECT (SELECT count(*) FROM ${schema}.running WHERE track = ANY ((SELECT tracks FROM ${schema}.limits WHERE name = 'shared')::integer[]))::integer AS shared,
       (SELECT count(*) FROM ${schema}.running WHERE queue = 'one')::integer AS one,
       (SELECT coalesce(max(n), 0) FROM (SELECT count(*) AS n FROM ${schema}.running WHERE group_name <> '' AND queue <> 'ordered'
                                          GROUP BY queue, group_name) AS busy)::integer AS in_group,
       (SELECT coalesce(max(n), 0) FROM (SELECT count(*) AS n FROM ${schema}.running WHERE queue = 'ordered' AND group_name <> ''
                                          GROUP BY group_name) AS busy)::integer AS in_ordered`

// Groups with a held job that nothing would make a claim look at, though nothing of them runs.
const FORGOTTEN = `
SELECT count(*)::integer AS forgotten
  FROM (SELECT DISTINCT track, queue, group_name FROM ${schema}.held) AS waiting
 WHERE NOT EXISTS (SELECT FROM ${schema}.arrivals AS a WHERE a.track = waiting.track AND a.group_name = waiting.group_name)
   AND NOT EXISTS (SELECT FROM ${schema}.rotation AS r WHERE r.track = waiting.track AND r.group_name = waiting.group_name)
   AND NOT EXISTS (SELECT FROM ${schema}.naps AS n WHERE n.track = waiting.track AND n.group_name = waiting.group_name)
   AND NOT EXISTS (SELECT FROM ${schema}.running WHERE running.queue = waiting.queue AND running.group_name = waiting.group_name)
   AND NOT EXISTS (SELECT FROM ${schema}.scheduled WHERE scheduled.queue = waiting.queue AND scheduled.group_name = waiting.group_name)
   AND NOT EXISTS (SELECT FROM ${schema}.held AS earlier
                    WHERE earlier.queue = waiting.queue AND earlier.group_name = waiting.group_name AND earlier.track <> waiting.track)`

async function pidOf(client: pg.Client): Promise<number> {
  return (await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')).rows[0]!.pid
}

test('concurrent claims pass no limit and leave no job behind while backends are killed', {
  timeout: LATER_MS,
}, async () => {
  const untilMs = performance.now() + DEADLINE_MS
  await prepare(stores[0]!)
  let isDone = false
  const isOver = () => isDone || performance.now() > untilMs
  const most = { shared: 0, one: 0, in_group: 0, in_ordered: 0 }
  let kills = 0
  let repaired = 0
  const [own, watching] = await Promise.all([pidOf(sql), pidOf(watcher)])
  const watch = async () => {
    while (!isOver()) {
      const { rows } = await watcher.query<typeof most>(OVER)
      for (const name of Object.keys(most) as (keyof typeof most)[]) most[name] = Math.max(most[name], rows[0]![name])
      await sleep(3)
    }
  }
  const kill = async () => {
    while (!isOver()) {
      await sleep(100)
      const { rows } = await sql.query(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE datname = current_database() AND query LIKE '%${schema}%' AND pid <> ALL ($1)
              AND state = 'active' AND backend_type = 'client backend' LIMIT 1`,
        [[own, watching]],
      )
      kills += rows.length
    }
  }
  const running = [
    watch(),
    kill(),
    keepUp(stores[3]!, isOver, (groups) => {
      repaired += groups
    }),
  ]
  for (const [index, store] of stores.entries()) running.push(work(store, `worker-${index}`, isOver))
  await enqueueSurely(stores.slice(0, 3), JOBS)
  let left = JOBS
  while (!isOver() && left > 0) {
    const { rows } = await watcher.query<{ left: number }>(
      `SELECT (${JOBS} - (SELECT count(*) FROM ${schema}.finished))::integer AS left`,
    )
    left = rows[0]!.left
    await sleep(50)
  }
  isDone = true
  await Promise.all(running)
  const { rows } = await sql.query<{ forgotten: number }>(FORGOTTEN)

  expect({ left, forgotten: rows[0]!.forgotten, repaired }).toEqual({ left: 0, forgotten: 0, repaired: 0 })
  expect(most.one).toBeLessThanOrEqual(OF_QUEUE)
  // Not less either: the test means nothing when limits are never reached.
  expect(most).toMatchObject({ shared: SHARED, in_group: 2, in_ordered: 1 })
  expect(kills).toBeGreaterThan(5)
})
