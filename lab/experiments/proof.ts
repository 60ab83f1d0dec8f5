// The SQL statements that prove a promise: records of producers and workers compared with the store. Each is shown with its result.

import type pg from 'pg'
import { expectNone, type Verdict } from './experiment.js'

/** A statement and its result. */
export interface Proof {
  readonly about: string
  readonly sql: string
  readonly rows: readonly object[]
}

const LOST = `
SELECT accepted.seq, accepted.id
  FROM experiment.accepted
  LEFT JOIN holdfast.finished ON finished.id = accepted.id AND finished.ending = 'succeeded'
  LEFT JOIN holdfast.dead ON dead.id = accepted.id
 WHERE finished.id IS NULL
   AND dead.id IS NULL
 ORDER BY accepted.seq
 LIMIT 10`

const TWICE_ACCEPTED = `
SELECT seq, count(*)::integer AS times
  FROM experiment.accepted
 GROUP BY seq
HAVING count(*) > 1
 LIMIT 10`

const DOUBLED = `
SELECT seq, sort, count(*)::integer AS times
  FROM experiment.effects
 GROUP BY seq, sort
HAVING count(*) > 1
 LIMIT 10`

// A job that succeeded and whose payload names an effect has it; 'none' names no effect.
const MISSING_EFFECT = `
SELECT accepted.seq
  FROM experiment.accepted
  JOIN holdfast.finished ON finished.id = accepted.id AND finished.ending = 'succeeded'
  JOIN holdfast.jobs ON jobs.id = accepted.id AND jobs.payload ->> 'effect' <> 'none'
  LEFT JOIN experiment.effects ON effects.seq = accepted.seq
 WHERE effects.seq IS NULL
 LIMIT 10`

const SETTLED_TWICE = `
SELECT id, count(*)::integer AS times
  FROM experiment.runs
 WHERE mark = 'settled'
   AND word = 'succeeded'
 GROUP BY id
HAVING count(*) > 1
 LIMIT 10`

// A run without a recorded end was killed. What came after it is no overlap.
const OVERLAPPING = `
SELECT began.id, began.fence, later.fence AS fence_of_second, (ended.at_ms - later.at_ms)::integer AS overlap_ms
  FROM experiment.runs AS began
  JOIN experiment.runs AS ended ON ended.mark = 'ended' AND ended.id = began.id AND ended.fence = began.fence
  JOIN experiment.runs AS later ON later.mark = 'began' AND later.id = began.id AND later.fence > began.fence
 WHERE began.mark = 'began'
   AND later.at_ms < ended.at_ms
 ORDER BY overlap_ms DESC
 LIMIT 10`

export type ProofName = 'lost' | 'acceptedTwice' | 'doubled' | 'withoutEffect' | 'settledTwice' | 'overlapping'

const PROOFS: Readonly<Record<ProofName, { readonly about: string; readonly sql: string }>> = {
  lost: { about: 'accepted jobs that neither succeeded nor are in the dead-letter queue', sql: LOST },
  acceptedTwice: { about: 'sequence numbers accepted twice', sql: TWICE_ACCEPTED },
  doubled: { about: 'effects applied more than once', sql: DOUBLED },
  withoutEffect: { about: 'jobs that succeeded without their effect', sql: MISSING_EFFECT },
  settledTwice: { about: 'jobs whose success was settled twice', sql: SETTLED_TWICE },
  overlapping: { about: 'jobs that ran twice at the same time', sql: OVERLAPPING },
}

/** Runs one of the statements. */
export async function prove(client: pg.Client, name: ProofName): Promise<Proof> {
  const { about, sql } = PROOFS[name]
  const { rows } = await client.query(sql)
  return { about, sql, rows }
}

/** Runs statements that must return no rows. Returns a verdict for each, with the SQL that a reader can repeat. */
export async function proveAll(
  client: pg.Client,
  names: readonly ProofName[],
): Promise<{ readonly verdicts: readonly Verdict[]; readonly notes: readonly string[] }> {
  const proofs: Proof[] = []
  for (const name of names) proofs.push(await prove(client, name))
  return {
    verdicts: proofs.map(({ about, rows }) => expectNone(about, rows.length)),
    notes: proofs.map(showProof),
  }
}

function showProof({ about, sql, rows }: Proof): string {
  const found = rows.length === 0 ? '(0 rows)' : rows.map((row) => JSON.stringify(row)).join('\n')
  return `${about}:${sql};\n${found}`
}

const REDELIVERIES = `
SELECT count(*)::integer AS runs, count(DISTINCT id)::integer AS jobs,
       (count(*) FILTER (WHERE NOT EXISTS (
          SELECT FROM experiment.runs AS ended
           WHERE ended.mark = 'ended' AND ended.id = runs.id AND ended.fence = runs.fence)))::integer AS killed
  FROM experiment.runs
 WHERE mark = 'began'`

export interface Deliveries {
  /** How often a handler began. */
  readonly runs: number
  readonly jobs: number
  /** Runs that were interrupted by the end of their process. */
  readonly killed: number
}

/** How often jobs were handed to a handler. */
export async function countDeliveries(client: pg.Client): Promise<Deliveries> {
  const { rows } = await client.query<Deliveries>(REDELIVERIES)
  return rows[0]!
}

export interface Ends {
  readonly succeeded: number
  readonly dead: number
  readonly deadByReason: Readonly<Record<string, number>>
}

/** How accepted jobs ended. */
export async function countEnds(client: pg.Client): Promise<Ends> {
  const { rows: done } = await client.query(
    "SELECT count(*)::integer AS count FROM holdfast.finished WHERE ending = 'succeeded'",
  )
  const { rows } = await client.query<{ reason: string; count: number }>(
    'SELECT reason, count(*)::integer AS count FROM holdfast.dead GROUP BY reason ORDER BY reason',
  )
  return {
    succeeded: done[0].count,
    dead: rows.reduce((sum, { count }) => sum + count, 0),
    deadByReason: Object.fromEntries(rows.map(({ reason, count }) => [reason, count])),
  }
}

// An older checkout that is measured beside this one may not have every table.
const HAS_HELD = "SELECT to_regclass('holdfast.held') IS NOT NULL AS has"

function unfinished(hasHeld: boolean): string {
  return `
SELECT EXISTS (SELECT FROM holdfast.ready WHERE queue = ANY ($1))
    OR ${hasHeld ? 'EXISTS (SELECT FROM holdfast.held WHERE queue = ANY ($1))' : 'false'}
    OR EXISTS (SELECT FROM holdfast.running)
    OR EXISTS (SELECT FROM holdfast.scheduled WHERE queue = ANY ($1)) AS open`
}

/** Waits until no job of the queues is left to do. False when that took too long. */
export async function waitUntilDone(
  client: pg.Client,
  queues: readonly string[],
  deadlineMs: number,
): Promise<boolean> {
  const endMs = performance.now() + deadlineMs
  const open = unfinished((await client.query(HAS_HELD)).rows[0].has)
  for (;;) {
    const askedMs = performance.now()
    const { rows } = await client.query(open, [queues])
    if (rows[0].open === false) return true
    if (performance.now() > endMs) return false
    // After a long backlog was drained, this query reads its dead rows. It must not become a load of its own.
    await pause(Math.max(100, 10 * (performance.now() - askedMs)))
  }
}

/** Resolves after a while. */
export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, Math.max(0, ms)))
}
