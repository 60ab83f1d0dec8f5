// How many jobs are in which state. Up to a bound rows are counted. Beyond it a sample of the table's pages is counted and scaled up to
// all pages. Neither uses the planner's statistics, which may be hours old or missing. Counting also reads every row that died since
// the oldest snapshot that somebody holds. When that takes too long, pages are sampled instead.

import { isHoldfastError } from '../../core/errors.js'
import type { Depth } from '../../core/operating.js'
import type { Database, Send } from './database.js'
import { arrayOf, type Row, type Statement, statement } from './statement.js'

export interface Depths {
  /** For each queue that has jobs in these states; '' for all together when that was asked for. */
  readonly byQueue: ReadonlyMap<string, Depth>
  readonly isExact: boolean
}

/** How many rows of each table are counted for the overview of all queues, which is read every few seconds. */
export const GLANCE_EXACT_MAX = 40_000

/** All queues together. */
export const ALL = ''

const TRACKS_OF_QUEUE = 'ARRAY(SELECT tracks.track FROM :schema.tracks WHERE tracks.queue = asked.queue)'

// Through the index on queue: each queue is counted up to its own bound.
const WAITING_OR_DEAD = statement(
  'depth_ready_dead',
  `
SELECT asked.queue,
       (SELECT count(*) FROM (SELECT FROM :schema.ready WHERE ready.queue = asked.queue LIMIT $2) AS few)
       + (SELECT count(*) FROM (SELECT FROM :schema.held WHERE held.track = ANY (${TRACKS_OF_QUEUE}) LIMIT $2) AS few),
       (SELECT count(*) FROM (SELECT FROM :schema.dead WHERE dead.queue = asked.queue LIMIT $2) AS few)
  FROM unnest($1::text[]) AS asked (queue)`,
)

const WAITING_OR_DEAD_ALL = statement(
  'depth_ready_dead_all',
  `
SELECT '', (SELECT count(*) FROM (SELECT FROM :schema.ready LIMIT $1) AS few)
           + (SELECT count(*) FROM (SELECT FROM :schema.held LIMIT $1) AS few),
       (SELECT count(*) FROM (SELECT FROM :schema.dead LIMIT $1) AS few)`,
)

// These tables have no index on queue, because jobs only pass through them. So one window of each serves all queues. It is read in the
// order of an index: page by page it could read only rows that are dead.
const PASSING = statement(
  'depth_passing',
  `
SELECT 'blocked', queue, count(*) FROM (SELECT queue FROM :schema.blocked ORDER BY blocked.id LIMIT $1) AS few GROUP BY queue
 UNION ALL
SELECT 'running', queue, count(*) FROM (SELECT queue FROM :schema.running ORDER BY running.id LIMIT $1) AS few GROUP BY queue
 UNION ALL
SELECT CASE WHEN retrying THEN 'retrying' ELSE 'scheduled' END, queue, count(*)
  FROM (SELECT queue, retrying FROM :schema.scheduled ORDER BY scheduled.id LIMIT $1) AS few
 GROUP BY retrying, queue`,
)

type Table = 'ready' | 'dead' | 'blocked' | 'running' | 'scheduled'

const TABLE_OF: Readonly<Record<keyof Depth, Table>> = {
  ready: 'ready',
  dead: 'dead',
  blocked: 'blocked',
  running: 'running',
  scheduled: 'scheduled',
  retrying: 'scheduled',
}

/** 400 pages hold some 30,000 rows: read in a few milliseconds, and a share of one in ten is off by a few percent. */
const SAMPLE_PAGES = 400
/** The last pages are read whole. While vacuum cannot clear anything away they have the newest rows, and most of the live ones. */
const TAIL_PAGES = 200
const PAGE_BYTES = 8_192

/** How long counting may take, and how long it is not tried again after it took longer. */
const PATIENCE = statement('count_patience', "SET LOCAL statement_timeout = '500ms'")
const PAUSE_MS = 30_000
const QUERY_CANCELLED = '57014'
const lastTooLongMs = new WeakMap<Database, number>()

/** What `count` finds, or null when it takes too long or did so recently. */
export async function inTime<T>(db: Database, count: (send: Send) => Promise<T>): Promise<T | null> {
  if (performance.now() - (lastTooLongMs.get(db) ?? Number.NEGATIVE_INFINITY) < PAUSE_MS) return null
  try {
    return await db.transaction('count', async (send) => {
      await send(PATIENCE, [])
      return count(send)
    })
  } catch (error) {
    if (!isHoldfastError(error) || error.details.sqlState !== QUERY_CANCELLED) throw error
    lastTooLongMs.set(db, performance.now())
    return null
  }
}

const sampleSql = (table: Table) => {
  const state = table === 'scheduled' ? "CASE WHEN retrying THEN 'retrying' ELSE 'scheduled' END" : `'${table}'`
  // The same pages each time, so that an unchanged table gives an unchanged number.
  return statement(
    `sample_of_${table}`,
    `
SELECT ${state}, queue, count(*)::float8 FROM :schema.${table} WHERE ctid >= $2::tid GROUP BY 1, 2
 UNION ALL
SELECT ${state}, queue, count(*) * 100 / $1::float8
  FROM :schema.${table} TABLESAMPLE SYSTEM ($1::real) REPEATABLE (1)
 WHERE ctid < $2
 GROUP BY 1, 2`,
  )
}

const SAMPLES: Readonly<Record<Table, Statement>> = {
  ready: sampleSql('ready'),
  dead: sampleSql('dead'),
  blocked: sampleSql('blocked'),
  running: sampleSql('running'),
  scheduled: sampleSql('scheduled'),
}

const TABLE_BYTES = statement('table_bytes', "SELECT pg_relation_size(format(':schema.%I', $1::text)::regclass)")

const TABLES: readonly Table[] = ['ready', 'dead', 'blocked', 'running', 'scheduled']

/** Counts the jobs of these queues, or of all together with null; exact up to `max` rows of each table and queue. */
export async function readDepths(db: Database, queues: readonly string[] | null, max: number): Promise<Depths> {
  // All queues share one limit of rows, so that many queues cost no more than one. But each may always count a few.
  const each = queues === null ? max : Math.max(100, Math.floor(max / Math.max(1, queues.length)))
  const found = new Found(queues)
  const counted = await inTime(db, (send) =>
    Promise.all([
      queues === null ? send(WAITING_OR_DEAD_ALL, [max + 1]) : send(WAITING_OR_DEAD, [arrayOf(queues), each + 1]),
      send(PASSING, [max + 1]),
    ]),
  )
  const over = counted === null ? TABLES : addCounts(found, counted, { each, max })
  const send: Send = (sql, values) => db.send('count', sql, values)
  const areWhole = await Promise.all(over.map((table) => estimate(send, table, found, counted === null ? -1 : each)))
  return { byQueue: found.byQueue, isExact: areWhole.every(Boolean) }
}

/** Adds what was counted, and returns the tables that have more rows than were counted. */
function addCounts(
  found: Found,
  [indexed, passing]: readonly [readonly Row[], readonly Row[]],
  { each, max }: { readonly each: number; readonly max: number },
): readonly Table[] {
  const over = new Set<Table>()
  for (const [queue, ready, dead] of indexed) {
    for (const [state, text] of [['ready', ready] as const, ['dead', dead] as const]) {
      found.add(queue!, state, Number(text))
      if (Number(text) > each) over.add(state)
    }
  }
  const looked = new Map<Table, number>()
  for (const [state, queue, text] of passing) {
    const table = TABLE_OF[state as keyof Depth]
    looked.set(table, (looked.get(table) ?? 0) + Number(text))
    found.add(queue!, state as keyof Depth, Number(text))
  }
  for (const [table, rows] of looked) if (rows > max) over.add(table)
  return [...over]
}

/** Which part of a table's pages is sampled, and where those begin that are read whole. */
async function planSample(send: Send, table: Table): Promise<{ percent: number; tail: string; isWhole: boolean }> {
  const [[bytes] = []] = await send(TABLE_BYTES, [table])
  const first = Math.max(0, Number(bytes) / PAGE_BYTES - TAIL_PAGES)
  const percent = Math.min(100, (100 * SAMPLE_PAGES) / Math.max(1, first))
  return { percent, tail: `(${first},0)`, isWhole: percent === 100 }
}

/** Replaces the counts of a table that were cut short by an estimate from a sample; true when the sample was all of it. */
async function estimate(send: Send, table: Table, found: Found, each: number): Promise<boolean> {
  const { percent, tail, isWhole } = await planSample(send, table)
  const hasQueueIndex = table === 'ready' || table === 'dead'
  const estimated = new Map<string, number>()
  for (const [state, queue, text] of await send(SAMPLES[table], [percent, tail])) {
    const name = JSON.stringify([found.nameOf(queue!), state])
    estimated.set(name, (estimated.get(name) ?? 0) + Number(text))
  }
  for (const [name, number] of estimated) {
    const [queue, state] = JSON.parse(name) as [string, keyof Depth]
    const counted = found.byQueue.get(queue)?.[state] ?? 0
    // A complete count is exact, and a sample never lowers what was counted.
    if (hasQueueIndex && counted <= each) continue
    found.set(queue, state, Math.max(counted, Math.round(number)))
  }
  return isWhole
}

const NONE: Depth = { blocked: 0, scheduled: 0, ready: 0, running: 0, retrying: 0, dead: 0 }

/** What was found so far, of the queues asked for. */
class Found {
  readonly #asked: ReadonlySet<string> | null
  readonly byQueue = new Map<string, Depth>()

  constructor(queues: readonly string[] | null) {
    this.#asked = queues === null ? null : new Set(queues)
  }

  nameOf(queue: string): string {
    return this.#asked === null ? ALL : queue
  }

  add(queue: string, state: keyof Depth, count: number): void {
    const known = this.byQueue.get(this.nameOf(queue)) ?? NONE
    this.set(this.nameOf(queue), state, known[state] + count)
  }

  set(queue: string, state: keyof Depth, count: number): void {
    if (this.#asked !== null && !this.#asked.has(queue)) return
    this.byQueue.set(queue, { ...(this.byQueue.get(queue) ?? NONE), [state]: count })
  }
}

/** What is found of a queue, nothing when it was not. */
export function depthOf({ byQueue }: Depths, queue: string): Depth {
  return byQueue.get(queue) ?? NONE
}

// Within one priority and one lane places grow with time, so the oldest ready job is the first of some lane: one look-up for each
// priority that occurs, found by skipping from one to the next, instead of a scan of the backlog.
const OLDEST = statement(
  'oldest_ready',
  `
WITH RECURSIVE moment AS MATERIALIZED (
  SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
), lane (queue, priority) AS (
  SELECT asked.queue, (SELECT max(ready.priority) FROM :schema.ready WHERE ready.queue = asked.queue)
    FROM unnest($2::text[]) AS asked (queue)
   UNION ALL
  SELECT lane.queue,
         (SELECT max(ready.priority) FROM :schema.ready WHERE ready.queue = lane.queue AND ready.priority < lane.priority)
    FROM lane
   WHERE lane.priority IS NOT NULL
), head AS (
  SELECT lane.queue,
         (SELECT ready.since FROM :schema.ready
           WHERE ready.queue = lane.queue AND ready.priority = lane.priority
           ORDER BY ready.position LIMIT 1) AS front,
         (SELECT ready.since FROM :schema.ready
           WHERE ready.queue = lane.queue AND ready.priority = lane.priority AND ready.position > 0
           ORDER BY ready.position LIMIT 1) AS back,
         (SELECT ready.since FROM :schema.ready                  -- of those that go newest first the last is the oldest
           WHERE ready.queue = lane.queue AND ready.priority = lane.priority AND ready.position < 0
           ORDER BY ready.position DESC LIMIT 1) AS last
    FROM lane
   WHERE lane.priority IS NOT NULL
)
SELECT head.queue, extract(epoch FROM moment.now - least(min(front), min(back), min(last)))::float8
  FROM (SELECT * FROM head
         UNION ALL
        -- Groups are too many to look at each: the oldest by their ids, which is when they were made.
        SELECT held.queue, min(held.since), NULL, NULL
          FROM (SELECT held.queue, held.since FROM :schema.held ORDER BY held.id LIMIT 1000) AS held
         WHERE held.queue = ANY ($2)
         GROUP BY held.queue) AS head, moment
 GROUP BY head.queue, moment.now`,
)

// For when the first live rows lie behind many dead ones: the oldest job in the last pages and in a sample.
const OLDEST_SEEN = statement(
  'oldest_ready_seen',
  `
SELECT seen.queue, extract(epoch FROM coalesce($1::timestamptz, clock_timestamp()) - min(seen.since))::float8
  FROM (SELECT ready.queue, ready.since FROM :schema.ready WHERE ready.ctid >= $3::tid
         UNION ALL
        SELECT ready.queue, ready.since
          FROM :schema.ready TABLESAMPLE SYSTEM ($2::real) REPEATABLE (1)
         WHERE ready.ctid < $3) AS seen
 GROUP BY seen.queue`,
)

/** The age in seconds of the job that has been ready longest, for each of these queues that has one. */
export async function readOldestAges(db: Database, queues: readonly string[]): Promise<ReadonlyMap<string, number>> {
  const rows = (await inTime(db, (send) => send(OLDEST, [db.now(), arrayOf(queues)]))) ?? (await readOldestSeen(db))
  const asked = new Set(queues)
  const ages = rows.map(([queue, age]) => [queue!, age === null ? 0 : Math.max(0, Number(age))] as const)
  return new Map(ages.filter(([queue]) => asked.has(queue)))
}

async function readOldestSeen(db: Database): Promise<readonly Row[]> {
  const send: Send = (sql, values) => db.send('count', sql, values)
  const { percent, tail } = await planSample(send, 'ready')
  return send(OLDEST_SEEN, [db.now(), percent, tail])
}
