// recall, keep: what long jobs keep between attempts. ◄── worker/keeper.ts

import type { Lease } from '../../core/job.js'
import type { KeptOf } from '../../core/kept/contract.js'
import {
  KEPT_MAX,
  type Kept,
  type KeptKind,
  type Recalled,
  SIGNALS_MAX,
  type StepView,
  stepViewOf,
  type WaitView,
} from '../../core/kept/kept.js'
import type { Database, Send } from './database.js'
import { arrayOf, plainArrayOf, type Row, readDate, readMs, statement } from './statement.js'

// The lock on the lease's row ends with the commit, and the transaction that ends the lease waits for it: no entry is kept after that. It lets the
// lease be extended meanwhile.
const KEEP = statement(
  'keep',
  `
WITH moment AS MATERIALIZED (
  SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
), held AS MATERIALIZED (
  SELECT entry.*, row.attempt
    FROM unnest($2::uuid[], $3::bigint[], $4::text[], $5::text[], $6::json[], $7::smallint[], $8::boolean[], $9::float8[])
           WITH ORDINALITY AS entry (id, fence, kind, name, value, begun, is_ended, took_ms, ordinal)
   CROSS JOIN LATERAL (
     SELECT running.attempt FROM :schema.running WHERE running.id = entry.id AND running.fence = entry.fence FOR KEY SHARE
   ) AS row
), written AS (
  INSERT INTO :schema.kept (id, kind, name, fence, attempt, begun, began_at, ended_at, value)
  SELECT held.id, held.kind, held.name, held.fence, held.attempt, held.begun, moment.now - held.took_ms * interval '1 millisecond',
         CASE WHEN held.is_ended THEN moment.now END, held.value
    FROM held, moment
   ORDER BY held.ordinal
      ON CONFLICT ON CONSTRAINT kept_once DO UPDATE
     SET fence = excluded.fence, attempt = excluded.attempt, begun = excluded.begun, ended_at = excluded.ended_at, value = excluded.value
   WHERE kept.ended_at IS NULL
)
SELECT ordinal::text FROM held`,
)

export async function keep(db: Database, entries: readonly KeptOf[]): Promise<readonly boolean[]> {
  if (entries.length === 0) return []
  const rows = await db.send('settle', KEEP, [
    db.now(),
    plainArrayOf(entries.map(({ id }) => id)),
    plainArrayOf(entries.map(({ fence }) => fence)),
    plainArrayOf(entries.map(({ entry }) => entry.kind)),
    arrayOf(entries.map(({ entry }) => entry.name)),
    arrayOf(entries.map(({ entry }) => entry.value)),
    plainArrayOf(entries.map(({ entry }) => entry.begun)),
    arrayOf(entries.map(({ entry }) => entry.isEnded)),
    plainArrayOf(entries.map(({ entry }) => entry.tookMs)),
  ])
  const held = new Set(rows.map(([ordinal]) => Number(ordinal)))
  return entries.map((_, index) => held.has(index + 1))
}

const IS_HELD = statement(
  'is_held',
  'SELECT FROM :schema.running WHERE running.id = $1::uuid AND running.fence = $2::bigint',
)

const entriesSql = (value: string) => `
SELECT kind, name, attempt, begun, (extract(epoch FROM began_at) * 1000)::float8, (extract(epoch FROM ended_at) * 1000)::float8, ${value}
  FROM :schema.kept
 WHERE id = $1::uuid
 ORDER BY began_at, kind, name
 LIMIT ${2 * KEPT_MAX}`

const ENTRIES = statement('kept', entriesSql('value'))
const STEPS = statement('kept_steps', entriesSql('NULL'))

const SIGNALS = statement(
  'signals',
  `
SELECT key, name, value, (extract(epoch FROM at) * 1000)::float8
  FROM :schema.signals
 WHERE id = $1::uuid
 ORDER BY line
 LIMIT ${SIGNALS_MAX}`,
)

const WAIT = statement(
  'wait',
  'SELECT name, turn, (extract(epoch FROM until) * 1000)::float8 FROM :schema.waits WHERE id = $1::uuid AND name IS NOT NULL',
)

const OUTPUT_END = statement(
  'output_end',
  'SELECT at_offset + length FROM :schema.output WHERE id = $1::uuid ORDER BY at_offset DESC LIMIT 1',
)

const WAITS_NOW = statement(
  'waits_now',
  `
SELECT waits.name, (extract(epoch FROM waits.since) * 1000)::float8, (extract(epoch FROM waits.until) * 1000)::float8
  FROM :schema.waits
 WHERE waits.id = $1::uuid AND waits.name IS NOT NULL
   AND EXISTS (SELECT FROM :schema.scheduled
                WHERE scheduled.id = waits.id AND scheduled.fence = waits.fence AND NOT scheduled.retrying)`,
)

/** The signal that a job waits for now, or null. */
export async function waitOf(send: Send, id: string): Promise<WaitView | null> {
  const [row] = await send(WAITS_NOW, [id])
  return row === undefined ? null : { name: row[0]!, since: readDate(row[1])!, until: readDate(row[2])! }
}

export async function recall(db: Database, { id, fence }: Lease): Promise<Recalled | null> {
  const [held, entries, signals, waits, ends] = await db.sendTogether('look', [
    [IS_HELD, [id, fence]],
    [ENTRIES, [id]],
    [SIGNALS, [id]],
    [WAIT, [id]],
    [OUTPUT_END, [id]],
  ])
  if (held!.length === 0) return null
  return {
    entries: entries!.map(readEntry),
    signals: signals!.map(([key, name, value, at]) => ({ key: key!, name: name!, value: value!, atMs: Number(at) })),
    wait: waits!.map(([name, turn, until]) => ({ name: name!, turn: Number(turn), untilMs: Number(until) }))[0] ?? null,
    outputEnd: Number(ends![0]?.[0] ?? 0),
  }
}

/** What a job has kept, as it is shown. */
export async function stepsOf(send: Send, id: string): Promise<StepView[]> {
  return (await send(STEPS, [id])).map((row) => stepViewOf(readEntry(row)))
}

function readEntry([kind, name, attempt, begun, beganAt, endedAt, value]: Row): Kept {
  return {
    kind: kind as KeptKind,
    name: name!,
    value: value ?? null,
    attempt: Number(attempt),
    begun: Number(begun),
    isEnded: endedAt !== null,
    beganAtMs: Number(beganAt),
    endedAtMs: readMs(endedAt),
  }
}
