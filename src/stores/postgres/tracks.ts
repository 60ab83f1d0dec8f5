// Tracks: a queue's jobs of one set of limits. An enqueue finds the numbers of its tracks by itself. Those that are missing are made on a
// connection of our own, so that no caller's transaction holds them back. ◄── enqueue-full.ts, enqueue-flow.ts

import { TRACKS_MAX } from '../../core/flow/job-flow.js'
import type { FlowRefusal } from '../../core/flow/views.js'
import type { NewJob } from '../../core/job.js'
import type { Database } from './database.js'
import { arrayOf, statement } from './statement.js'

/** The sets of limits of a batch. */
export interface Ways {
  readonly sets: readonly { readonly queue: string; readonly limits: readonly string[] }[]
  /** The place of a job's set from 1 on; null for a plain job. */
  readonly numberOf: (job: NewJob) => number | null
}

/** The tracks of the sets of a batch, from two array parameters. Those that are not there are missing. */
export const WAYS = (queues: string, limits: string): string => `ways AS MATERIALIZED (
  SELECT way.number, tracks.track, flows.in_order AS is_ordered
    FROM unnest(${queues}::text[], ${limits}::text[]) WITH ORDINALITY AS way (queue, limits, number)
   CROSS JOIN LATERAL (
     SELECT tracks.track FROM :schema.tracks
      WHERE tracks.queue = way.queue AND tracks.limits = way.limits::text[] AND NOT tracks.forgotten
     OFFSET 0
   ) AS tracks
    JOIN LATERAL (SELECT flows.in_order FROM :schema.flows WHERE flows.queue = way.queue OFFSET 0) AS flows ON true
   WHERE NOT EXISTS (SELECT FROM unnest(way.limits::text[]) AS named (name)
                      WHERE NOT starts_with(named.name, 'type:')
                        AND NOT EXISTS (SELECT FROM :schema.limits WHERE limits.name = named.name))
)`

const NO_WAYS: Ways = { sets: [], numberOf: () => null }

/** The sets of limits that the jobs of a batch have. */
export function waysOf(jobs: readonly NewJob[]): Ways {
  if (jobs.every(({ flow }) => flow === undefined)) return NO_WAYS
  const numbers = new Map<string, number>()
  const sets: { queue: string; limits: readonly string[] }[] = []
  // Most have no limits. The blank keeps their names apart from JSON.
  const nameOf = ({ queue, flow }: NewJob) =>
    flow!.limits.length === 0 ? ` ${queue}` : JSON.stringify([queue, ...flow!.limits])
  for (const job of jobs) {
    if (job.flow === undefined || numbers.has(nameOf(job))) continue
    sets.push({ queue: job.queue, limits: job.flow.limits })
    numbers.set(nameOf(job), sets.length)
  }
  return { sets, numberOf: (job) => (job.flow === undefined ? null : numbers.get(nameOf(job))!) }
}

const MAKE_TRACK = statement(
  'make_track',
  'SELECT made::text, unknown_limit FROM :schema.make_track($1, $2::text[], $3::integer)',
)

/** Makes the tracks of these jobs. Answers why jobs cannot have one, by their ids. */
export async function makeTracks(db: Database, jobs: readonly NewJob[]): Promise<ReadonlyMap<string, FlowRefusal>> {
  const ways = waysOf(jobs)
  const refusals = new Map<string, FlowRefusal>()
  for (const [index, { queue, limits }] of ways.sets.entries()) {
    const [[made, unknownLimit] = []] = await db.send('enqueue', MAKE_TRACK, [queue, arrayOf(limits), TRACKS_MAX])
    if (made !== null && made !== undefined) continue
    const refusal: FlowRefusal =
      unknownLimit == null
        ? { code: 'too_many_tracks', max: TRACKS_MAX }
        : { code: 'limit_unknown', limit: unknownLimit }
    for (const job of jobs) if (ways.numberOf(job) === index + 1) refusals.set(job.id, refusal)
  }
  return refusals
}
