// The states of jobs: the one statement that asks every table for a list of ids.

import type { JobState } from '../../core/states.js'
import type { Send } from './database.js'
import { arrayOf, statement } from './statement.js'

// A row in ready that never moved is found by its job's position, one that moved by its id.
const STATES = statement(
  'states',
  `
SELECT asked.id::text,
       CASE WHEN EXISTS (SELECT FROM :schema.finished WHERE finished.id = asked.id)
            THEN (SELECT ending::text FROM :schema.finished WHERE finished.id = asked.id)
            WHEN EXISTS (SELECT FROM :schema.running WHERE running.id = asked.id) THEN 'running'
            WHEN EXISTS (SELECT FROM :schema.scheduled WHERE scheduled.id = asked.id)
            THEN (SELECT CASE WHEN retrying THEN 'retrying' ELSE 'scheduled' END FROM :schema.scheduled WHERE scheduled.id = asked.id)
            WHEN EXISTS (SELECT FROM :schema.dead WHERE dead.id = asked.id) THEN 'dead'
            WHEN EXISTS (SELECT FROM :schema.blocked WHERE blocked.id = asked.id) THEN 'blocked'
            WHEN EXISTS (SELECT FROM :schema.ready WHERE ready.id = asked.id AND ready.moved) THEN 'ready'
            WHEN EXISTS (SELECT FROM :schema.jobs
                           JOIN :schema.ready ON ready.queue = jobs.queue AND ready.priority = jobs.priority
                            AND ready.position = jobs.position AND ready.id = jobs.id
                          WHERE jobs.id = asked.id) THEN 'ready'
            WHEN EXISTS (SELECT FROM :schema.held WHERE held.id = asked.id) THEN 'ready'
        END
  FROM pg_catalog.unnest($1::uuid[]) AS asked (id)`,
)

/** The states of those of the jobs that exist. */
export async function statesOf(send: Send, ids: readonly string[]): Promise<Map<string, JobState>> {
  const rows = await send(STATES, [arrayOf(ids)])
  return new Map(rows.filter(([, state]) => state !== null).map(([id, state]) => [id!, state as JobState]))
}
