// What a claim costs must not depend on how much is waiting, nor on what the planner knows: counted in pages, not in time.

import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { CLAIM } from '../../src/stores/postgres/claim.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { START_OPTIONS } from '../../src/stores/postgres/session.js'
import { inSchema } from '../../src/stores/postgres/statement.js'
import { testServerUrl } from '../support/postgres.js'

const MILLION = 1_000_000
const schema = `plans_${process.pid}`

interface PlanNode {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly 'Shared Hit Blocks': number
  readonly 'Shared Read Blocks': number
  readonly Plans?: readonly PlanNode[]
}

describe('a claim of 100 jobs', () => {
  let sql: pg.Client
  let small: { pages: number; nodes: readonly PlanNode[] }

  beforeAll(async () => {
    await (await postgresStore(testServerUrl(), { schema })).close()
    sql = new pg.Client({ connectionString: testServerUrl(), options: START_OPTIONS })
    await sql.connect()
    // Never analysed, never vacuumed: the planner knows nothing but the files' sizes.
    for (const table of ['ready', 'scheduled', 'running']) {
      await sql.query(`ALTER TABLE ${schema}.${table} SET (autovacuum_enabled = off)`)
    }
    await fillReady(sql, 1_000)
    small = await explainClaim(sql)
  }, 60_000)

  afterAll(async () => {
    await sql.query(`DROP SCHEMA ${schema} CASCADE`)
    await sql.end()
  })

  test('scans nothing: every table is reached through an index or by place', () => {
    const scans = small.nodes.filter((node) => ['Seq Scan', 'Bitmap Heap Scan'].includes(node['Node Type']))

    expect(scans).toEqual([])
  })

  test('reads the same pages with a million jobs in the future', async () => {
    await sql.query(
      `INSERT INTO ${schema}.scheduled (id, run_at, priority, attempt, crashes, retrying, queue, type)
       SELECT gen_random_uuid(), now() + n * interval '1 second', 0, 0, 0, false, 'default', 'work'
         FROM generate_series(1, $1) AS n`,
      [MILLION],
    )

    const { pages } = await explainClaim(sql)

    expect(pages).toBeLessThanOrEqual(small.pages * 1.1 + 10)
  }, 120_000)

  test('reads the same pages with a million jobs ready, on tables that were never analysed', async () => {
    await fillReady(sql, MILLION)

    const { pages, nodes } = await explainClaim(sql)

    expect(nodes.filter((node) => ['Seq Scan', 'Bitmap Heap Scan', 'Sort'].includes(node['Node Type'])).length).toBe(
      small.nodes.filter((node) => node['Node Type'] === 'Sort').length,
    )
    // The backlog itself: one more level in its index. The facts: one more level for each of the 100 look-ups.
    expect(pagesOfBacklog(nodes)).toBeLessThanOrEqual(pagesOfBacklog(small.nodes) + 2)
    expect(pages).toBeLessThanOrEqual(small.pages + 100 + 20)
  }, 120_000)

  test('reads the same pages after the tables were analysed while empty', async () => {
    await sql.query(`TRUNCATE ${schema}.ready, ${schema}.running, ${schema}.jobs`)
    await sql.query(`ANALYZE ${schema}.ready; ANALYZE ${schema}.running; ANALYZE ${schema}.jobs`)
    const planned = await explainClaim(sql)
    await fillReady(sql, 1_000)

    const { pages, nodes } = await explainClaim(sql)

    expect(planned.nodes.some((node) => node['Node Type'] === 'Seq Scan')).toBe(false)
    expect(nodes.some((node) => node['Node Type'] === 'Seq Scan')).toBe(false)
    expect(pages).toBeLessThanOrEqual(small.pages * 1.1 + 10)
  })
})

test('autovacuum analyses no table that jobs pass through, nor those of a day made later', async () => {
  const analysed = `${schema}_analysed`
  await (await postgresStore(testServerUrl(), { schema: analysed })).close()
  const sql = new pg.Client({ connectionString: testServerUrl() })
  await sql.connect()
  await sql.query(`SELECT ${analysed}.open_day('2099-01-01')`)

  const { rows } = await sql.query(
    `SELECT relname, 'autovacuum_analyze_threshold=2147483647' = ANY (reloptions) IS TRUE AS off
       FROM pg_class
      WHERE relnamespace = '${analysed}'::regnamespace AND relkind = 'r'
        AND relname ~ '^(ready|running|scheduled)$|^(jobs|finished|attempts|logs|progress)_'`,
  )
  await sql.query(`DROP SCHEMA ${analysed} CASCADE`)
  await sql.end()

  expect(rows.filter(({ off }) => !off)).toEqual([])
  // Three, five days and the one made later, and the two halves of the default partitions.
  expect(rows).toHaveLength(3 + 5 * 6 + 5 * 2)
})

/** Writes ready jobs as enqueue does: facts and positions. Older ones come first. */
async function fillReady(sql: pg.Client, count: number): Promise<void> {
  await sql.query(
    `WITH written AS (
       INSERT INTO ${schema}.jobs (id, created_at, position, priority, version, queue, type, payload)
       SELECT (overlay(lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint), 12, '0') PLACING '-' FROM 9 FOR 0)
               || '-7' || substr(md5(random()::text), 1, 3) || '-8' || substr(md5(random()::text), 1, 3)
               || '-' || lpad(to_hex(n), 12, '0'))::uuid,
              now(), nextval('${schema}.positions') * 65536, 0, 1, 'default', 'work', '{}'
         FROM generate_series(1, $1) AS n
       RETURNING id, position)
     INSERT INTO ${schema}.ready (id, position, since, priority, moved, queue, type)
     SELECT id, position, now(), 0, false, 'default', 'work' FROM written`,
    [count],
  )
}

async function explainClaim(sql: pg.Client): Promise<{ pages: number; nodes: readonly PlanNode[] }> {
  const values = [null, '{default}', '{100}', '{work}', 30_000, 'w']
  await sql.query('BEGIN')
  const { rows } = await sql.query(`EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${inSchema(CLAIM.sql, schema)}`, values)
  await sql.query('ROLLBACK')
  const root: PlanNode = rows[0]['QUERY PLAN'][0].Plan
  return { pages: root['Shared Hit Blocks'] + root['Shared Read Blocks'], nodes: flatten(root) }
}

/** The pages read to find the first jobs of the backlog. */
function pagesOfBacklog(nodes: readonly PlanNode[]): number {
  const scan = nodes.find((node) => node['Relation Name'] === 'ready' && node['Node Type'] === 'Index Scan')!
  return scan['Shared Hit Blocks'] + scan['Shared Read Blocks']
}

function flatten(node: PlanNode): PlanNode[] {
  return [node, ...(node.Plans ?? []).flatMap(flatten)]
}
