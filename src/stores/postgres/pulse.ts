// pulse: the one look at the store of a process that has nothing to do. It reports the workers, and answers whether anything is to be
// done and when. ◄── core/quiet.ts

import type { Pulse, PulseRequest } from '../../core/upkeep-store.js'
import { arrayOf, type Row, readJson, readMs, type Statement, statement } from './statement.js'

// A sample is copied from the last one: nothing has changed since, or this process would not rest.
export const PULSE: Statement = statement(
  'pulse',
  `
WITH moment AS MATERIALIZED (
  SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
), beaten AS (
  INSERT INTO :schema.workers (id, started_at, seen_at, beat)
  SELECT said.beat->>'id', moment.now, moment.now, said.beat
    FROM moment, json_array_elements($2::json) AS said (beat)
      ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at, beat = excluded.beat
), last AS MATERIALIZED (
  SELECT samples.at FROM :schema.samples WHERE samples.queue = '' ORDER BY samples.at DESC LIMIT 1
), sampled AS (
  INSERT INTO :schema.samples (queue, at, blocked, scheduled, ready, running, retrying, dead, oldest_age_s)
  SELECT samples.queue, bucket.at, samples.blocked, samples.scheduled, samples.ready, samples.running, samples.retrying, samples.dead,
         CASE WHEN samples.oldest_age_s = 0 THEN 0 ELSE samples.oldest_age_s + extract(epoch FROM bucket.at - last.at) END
    FROM last
    JOIN :schema.samples ON samples.at = last.at
   CROSS JOIN (SELECT date_bin('10 seconds', moment.now, 'epoch') AS at FROM moment) AS bucket
   WHERE $4::boolean AND bucket.at > last.at
   ORDER BY samples.queue COLLATE "C"
      ON CONFLICT DO NOTHING
)
SELECT EXISTS (SELECT FROM :schema.running),
       (SELECT (extract(epoch FROM scheduled.run_at - moment.now) * 1000)::float8
          FROM :schema.scheduled, moment
         ORDER BY scheduled.run_at, scheduled.id
         LIMIT 1),
       (SELECT (extract(epoch FROM min(schedules.next_at) - (SELECT now FROM moment)) * 1000)::float8
          FROM :schema.schedules
         WHERE NOT schedules.paused),
       (SELECT json_agg(asked.name)
          FROM unnest($3::text[]) AS asked (name)
         WHERE EXISTS (SELECT FROM :schema.ready WHERE ready.queue = asked.name)
            OR EXISTS (SELECT FROM :schema.tracks JOIN :schema.held ON held.track = tracks.track WHERE tracks.queue = asked.name)),
       EXISTS (SELECT FROM :schema.bulks WHERE bulks.state IN ('waiting', 'running'))
         OR EXISTS (SELECT FROM :schema.cancels)
         OR EXISTS (SELECT FROM :schema.link_checks)`,
)

/** The values of the statement. `now` is null but in tests. */
export function pulseValues(now: string | null, { queues, beats, isUpkeep }: PulseRequest): readonly unknown[] {
  return [now, JSON.stringify(beats), arrayOf(queues), isUpkeep]
}

export function readPulse([row]: readonly Row[]): Pulse {
  const [isRunning, nextDueMs, nextTickMs, queues, hasUpkeep] = row!
  return {
    isRunning: isRunning === 't',
    nextDueMs: readMs(nextDueMs),
    nextTickMs: readMs(nextTickMs),
    queues: (readJson(queues) ?? []) as string[],
    hasUpkeep: hasUpkeep === 't',
  }
}
