// Debounce and replace: a new job gives its payload to the one that has its key. ◄── enqueue-full.ts · next: replace-function.ts

import type { ReplaceRule } from '../../core/flow/carried.js'
import type { NewJob } from '../../core/job.js'
import type { JobState } from '../../core/states.js'
import { writeOptions } from './options-column.js'
import { arrayOf, statement } from './statement.js'
import { makeTracks } from './tracks.js'
import { KEY_TRIES_MAX, keyUnsettled, type NewRow, type Outcome, type WriteScope } from './write-scope.js'

const REPLACE = statement(
  'replace_payload',
  `
SELECT job, became, how
  FROM :schema.replace_payload($1::timestamptz, $2, $3, $4::uuid, $5, $6::json, $7::smallint, $8::smallint, $9::json, $10::text[],
                               $11::text[], $12, $13::float8, $14::float8, $15::boolean, $16)`,
)

/** Rows with the key of another row of their batch, by that row. */
type Twins = ReadonlyMap<NewRow, NewRow>

/** How long a job waits for another payload before it runs; null for one that does not. */
export function quietMs({ replace }: NewJob): number | null {
  return replace === undefined || replace.waitMs === 0 ? null : Math.min(replace.waitMs, replace.maxWaitMs ?? Infinity)
}

/** Writes a row as any other. */
type Write = (row: NewRow) => Promise<Outcome>

/**
 * For the rows with a rule whose key another job holds, also one of their own batch: gives it the newest payload, or writes its successor.
 * Changes their outcomes. Keys go in one order, so that two batches cannot deadlock.
 */
export async function replaceHeld(
  scope: WriteScope,
  first: readonly NewRow[],
  twins: Twins,
  outcomes: Map<string, Outcome>,
  write: Write,
): Promise<void> {
  const families = familiesOf(first, twins, outcomes).filter((asking) => asking.length > 0)
  for (const asking of families.sort(byKey)) {
    // The limits of the first are the successor's. When they refuse it, it takes nothing with it: the next one is the first.
    let left = asking
    for (;;) {
      const outcome = await replaceAll(scope, left, write)
      const isRefused = !('holder' in outcome)
      for (const row of isRefused ? left.slice(0, 1) : left) outcomes.set(row.job.id, outcomeOf(row, outcome))
      left = left.slice(1)
      if (!isRefused || left.length === 0) break
    }
  }
}

/** Every row is answered with the job that has its payload or a newer one. */
function outcomeOf({ job }: NewRow, outcome: Outcome): Outcome {
  const isOwn = !('holder' in outcome) || outcome.holder === job.id || outcome.isReplaced === false
  return isOwn ? outcome : { ...outcome, isReplaced: true }
}

async function replaceAll(scope: WriteScope, asking: readonly NewRow[], write: Write): Promise<Outcome> {
  // With one rule the newest payload is all that matters. A successor that waits for no time has none to move, so it is written first.
  const isOneRule = asking.every(({ job }) => quietMs(job) === quietMs(asking[0]!.job))
  if (!isOneRule) {
    const first = await replaceOne(scope, asking.slice(0, 1), write)
    if (!('holder' in first)) return first
  }
  return replaceOne(scope, asking, write)
}

/** The rows of each key that have a rule and were not written, in the order of their batch. */
function familiesOf(first: readonly NewRow[], twins: Twins, outcomes: ReadonlyMap<string, Outcome>): NewRow[][] {
  const families = new Map(first.map((row) => [row, [row]]))
  for (const [row, of] of twins) families.get(of)!.push(row)
  const isHeld = ({ job }: NewRow) => {
    const outcome = outcomes.get(job.id)!
    return job.replace !== undefined && 'holder' in outcome && outcome.holder !== job.id
  }
  return [...families.values()].map((rows) => rows.filter(isHeld))
}

function byKey([one]: readonly NewRow[], [other]: readonly NewRow[]): number {
  const [a, b] = [one!.job, other!.job].map(({ queue, idempotencyKey }) => `${queue}\n${idempotencyKey!.key}`)
  return a! < b! ? -1 : 1
}

async function replaceOne(scope: WriteScope, asking: readonly NewRow[], write: Write): Promise<Outcome> {
  const { db, send } = scope
  const { payload, version, tags, trace, replace } = asking.at(-1)!.job
  const job = { ...asking[0]!.job, payload, version, tags, trace, replace }
  for (let tries = 0; tries < KEY_TRIES_MAX; tries++) {
    const [[holder, state, how] = []] = await send(REPLACE, valuesOf(scope, job, replace!))
    if (how === 'trackless') {
      const refused = (await makeTracks(db, [job])).get(job.id)
      if (refused !== undefined) return { refused }
    } else if (how === 'open') {
      const written = await write({ ...asking[0]!, job })
      if (!('holder' in written) || written.holder === job.id) return written
    } else if (how === 'kept') return { holder: holder!, state: null, isReplaced: false }
    else return { holder: holder!, state: state as JobState }
  }
  throw keyUnsettled(asking)
}

function valuesOf({ db, patience }: WriteScope, job: NewJob, { waitMs, maxWaitMs }: ReplaceRule): unknown[] {
  return [
    db.now(),
    job.queue,
    job.idempotencyKey!.key,
    job.id,
    job.type,
    job.payload,
    job.priority,
    job.version,
    writeOptions({ ...job, after: [] }, null),
    job.tags.length === 0 ? null : arrayOf(job.tags),
    job.flow === undefined ? null : arrayOf(job.flow.limits),
    job.flow?.group ?? '',
    waitMs,
    maxWaitMs,
    // In a transaction of the caller locks last as long as that does.
    patience !== null,
    patience,
  ]
}
