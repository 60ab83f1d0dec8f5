// tally, sample and series: what happened and how many jobs were in which state, in steps of ten seconds. ◄── client/tally.ts, upkeep/sample.ts

import {
  BUCKET_MS,
  type Depth,
  isLiveAfter,
  NO_TALLY,
  type QueueTally,
  type SeriesPoint,
  type SeriesRequest,
} from '../../core/operating.js'
import { seriesSteps } from '../../core/series.js'
import type { Database, Send } from './database.js'
import { fillFingerprints } from './dead-groups.js'
import { ALL, depthOf, GLANCE_EXACT_MAX, readDepths, readOldestAges } from './depths.js'
import { readNow } from './list.js'
import { queuesShown } from './queues.js'
import { arrayOf, type Row, statement } from './statement.js'
import { workers } from './workers.js'

const COUNTS = [
  'enqueued',
  'claimed',
  'succeeded',
  'failed',
  'retried',
  'dead',
  'cancelled',
  'rescued',
  'waitMsTotal',
  'runMsTotal',
] as const

const TALLY = statement(
  'tally',
  `
SELECT :schema.tally($1::timestamptz, $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[],
                     $9::bigint[], $10::bigint[], $11::float8[], $12::float8[])`,
)

export async function tally(db: Database, tallies: readonly QueueTally[]): Promise<void> {
  if (tallies.length === 0) return
  const sums = new Map<string, Record<(typeof COUNTS)[number], number>>()
  for (const each of tallies) {
    for (const queue of [each.queue, ALL]) {
      const sum = sums.get(queue) ?? { ...NO_TALLY }
      for (const part of COUNTS) sum[part] += each[part]
      sums.set(queue, sum)
    }
  }
  const columns = COUNTS.map((part) => arrayOf([...sums.values()].map((sum) => sum[part])))
  await db.send('operate', TALLY, [db.now(), arrayOf([...sums.keys()]), ...columns])
}

const IS_SAMPLED = statement(
  'is_sampled',
  "SELECT EXISTS (SELECT FROM :schema.samples WHERE queue = '' AND at = to_timestamp($1::float8 / 1000))",
)

const SAMPLE = statement(
  'sample',
  `
INSERT INTO :schema.samples (queue, at, blocked, scheduled, ready, running, retrying, dead, oldest_age_s)
SELECT seen.queue, to_timestamp($1::float8 / 1000), seen.blocked, seen.scheduled, seen.ready, seen.running, seen.retrying,
       seen.dead, seen.oldest_age_s
  FROM unnest($2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::float8[])
         AS seen (queue, blocked, scheduled, ready, running, retrying, dead, oldest_age_s)
 ORDER BY seen.queue COLLATE "C"
    ON CONFLICT DO NOTHING
RETURNING queue`,
)

const STATES = ['blocked', 'scheduled', 'ready', 'running', 'retrying', 'dead'] as const

/** Takes a sample unless somebody has taken the one of these ten seconds. */
export async function sample(db: Database): Promise<boolean> {
  const send: Send = (sql, values) => db.send('count', sql, values)
  const nowMs = await readNow(db, send)
  const atMs = nowMs - (nowMs % BUCKET_MS)
  const [[isSampled] = []] = await send(IS_SAMPLED, [atMs])
  if (isSampled === 't') return false
  const live = (await workers(db)).filter((worker) => isLiveAfter(nowMs - worker.seenAt.getTime(), worker))
  const served = [...new Set(live.flatMap((worker) => worker.queues))]
  const names = (await queuesShown(send, {}, served)).shown.map(({ name }) => name)
  const [depths, ages] = await Promise.all([readDepths(db, names, GLANCE_EXACT_MAX), readOldestAges(db, names)])
  const seen = new Map<string, Depth & { readonly oldestAgeS: number }>()
  for (const name of names) {
    const depth = depthOf(depths, name)
    if (STATES.some((state) => depth[state] > 0)) seen.set(name, { ...depth, oldestAgeS: ages.get(name) ?? 0 })
  }
  const rows = [...seen, [ALL, total([...seen.values()])] as const]
  const columns = [...STATES, 'oldestAgeS' as const].map((part) => arrayOf(rows.map(([, depth]) => depth[part])))
  const written = await db.send('upkeep', SAMPLE, [atMs, arrayOf(rows.map(([name]) => name)), ...columns])
  await fillFingerprints((sql, values) => db.send('upkeep', sql, values))
  return written.some(([queue]) => queue === ALL)
}

function total(depths: readonly (Depth & { readonly oldestAgeS: number })[]): Depth & { readonly oldestAgeS: number } {
  const sum = (state: keyof Depth) => depths.reduce((all, depth) => all + depth[state], 0)
  const all = Object.fromEntries(STATES.map((state) => [state, sum(state)])) as unknown as Depth
  return { ...all, oldestAgeS: depths.reduce((oldest, depth) => Math.max(oldest, depth.oldestAgeS), 0) }
}

const TALLIES = statement(
  'series_of_tallies',
  `
SELECT floor((extract(epoch FROM at) * 1000 - $2::float8) / $4::float8)::integer AS step,
       sum(enqueued), sum(claimed), sum(succeeded), sum(failed), sum(retried), sum(dead), sum(cancelled), sum(rescued),
       sum(wait_ms_total), sum(run_ms_total)
  FROM :schema.tallies
 WHERE queue = $1
   AND at >= to_timestamp($2 / 1000)
   AND at < to_timestamp($3::float8 / 1000)
 GROUP BY step`,
)

const SAMPLES = statement(
  'series_of_samples',
  `
SELECT last.step, coalesce(samples.oldest_age_s, 0), coalesce(samples.blocked, 0), coalesce(samples.scheduled, 0),
       coalesce(samples.ready, 0), coalesce(samples.running, 0), coalesce(samples.retrying, 0), coalesce(samples.dead, 0)
  FROM (SELECT floor((extract(epoch FROM at) * 1000 - $2::float8) / $4::float8)::integer AS step, max(at) AS at
          FROM :schema.samples
         WHERE queue = ''
           AND at >= to_timestamp($2 / 1000)
           AND at < to_timestamp($3::float8 / 1000)
         GROUP BY step) AS last
  LEFT JOIN LATERAL (SELECT * FROM :schema.samples WHERE samples.queue = $1 AND samples.at = last.at OFFSET 0) AS samples
    ON true`,
)

export async function series(db: Database, request: SeriesRequest): Promise<readonly SeriesPoint[]> {
  const { queue, stepMs } = request
  const send: Send = (sql, values) => db.send('count', sql, values)
  const steps = seriesSteps(request, await readNow(db, send))
  if (steps.length === 0) return []
  const values = [queue ?? ALL, steps[0], steps.at(-1)! + stepMs, stepMs]
  const [tallies, samples] = await Promise.all([send(TALLIES, values), send(SAMPLES, values)])
  const counted = new Map(tallies.map(([step, ...sums]) => [Number(step), sums]))
  const seen = new Map(samples.map(([step, ...depths]) => [Number(step), depths]))
  return steps.map((atMs, step) => ({
    at: new Date(atMs),
    depth: readDepth(seen.get(step)),
    ...readCounts(counted.get(step)),
  }))
}

function readDepth(row: Row | undefined): SeriesPoint['depth'] {
  if (row === undefined) return null
  const [oldestAgeS, ...depths] = row.map(Number)
  const depth = Object.fromEntries(STATES.map((state, index) => [state, depths[index]])) as unknown as Depth
  return { ...depth, oldestAgeS: oldestAgeS! }
}

function readCounts(row: Row | undefined): Record<(typeof COUNTS)[number], number> {
  const counts: Record<(typeof COUNTS)[number], number> = { ...NO_TALLY }
  if (row !== undefined) for (const [index, part] of COUNTS.entries()) counts[part] = Number(row[index])
  return counts
}
