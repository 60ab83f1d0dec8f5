// note: progress and log lines of running jobs. ◄── worker/context.ts

import type { JobNote } from '../../core/job.js'
import type { Database } from './database.js'
import { arrayOf, statement } from './statement.js'

const NOTE = statement(
  'note',
  `
WITH note AS MATERIALIZED (
  SELECT note.id, note.progress, note.ordinal
    FROM unnest($1::uuid[], $2::bigint[], $3::json[]) WITH ORDINALITY AS note (id, fence, progress, ordinal)
   CROSS JOIN LATERAL (                                       -- one look-up for each note, whatever statistics say
     SELECT FROM :schema.running WHERE running.id = note.id AND running.fence = note.fence OFFSET 0
   ) AS held
), into_progress AS (
  INSERT INTO :schema.progress (id, value)
  SELECT DISTINCT ON (id) id, progress                       -- of several for one job the last counts
    FROM note
   WHERE progress IS NOT NULL
   ORDER BY id, ordinal DESC
      ON CONFLICT (id) DO UPDATE SET value = excluded.value
)
INSERT INTO :schema.logs (id, at, text)
SELECT note.id, to_timestamp(line.at_ms / 1000), line.text
  FROM unnest($4::bigint[], $5::float8[], $6::text[]) WITH ORDINALITY AS line (note, at_ms, text, ordinal)
  JOIN note ON note.ordinal = line.note
 ORDER BY line.ordinal`,
)

export async function note(db: Database, notes: readonly JobNote[]): Promise<void> {
  if (notes.length === 0) return
  const lines = notes.flatMap(({ logs }, index) => logs.map(({ atMs, text }) => ({ ordinal: index + 1, atMs, text })))
  await db.send('settle', NOTE, [
    arrayOf(notes.map(({ id }) => id)),
    arrayOf(notes.map(({ fence }) => fence)),
    arrayOf(notes.map(({ progress }) => progress)),
    arrayOf(lines.map(({ ordinal }) => ordinal)),
    arrayOf(lines.map(({ atMs }) => atMs)),
    arrayOf(lines.map(({ text }) => text)),
  ])
}
