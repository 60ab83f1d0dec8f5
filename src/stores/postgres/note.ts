// note: progress and log lines of running jobs. ◄── worker/context.ts

import type { JobNote } from '../../core/job.js'
import type { Database } from './database.js'
import { arrayOf, statement } from './statement.js'

const NOTE = statement(
  'note',
  `
WITH note AS MATERIALIZED (
  SELECT note.id, note.progress
    FROM unnest($1::uuid[], $2::bigint[], $3::json[]) AS note (id, fence, progress)
    JOIN :schema.running ON running.id = note.id AND running.fence = note.fence
), into_progress AS (
  INSERT INTO :schema.progress (id, value)
  SELECT id, progress
    FROM note
   WHERE progress IS NOT NULL
      ON CONFLICT (id) DO UPDATE SET value = excluded.value
)
INSERT INTO :schema.logs (id, at, text)
SELECT line.id, to_timestamp(line.at_ms / 1000), line.text
  FROM unnest($4::uuid[], $5::float8[], $6::text[]) WITH ORDINALITY AS line (id, at_ms, text, ordinal)
 WHERE line.id IN (SELECT id FROM note)
 ORDER BY line.ordinal`,
)

export async function note(db: Database, notes: readonly JobNote[]): Promise<void> {
  if (notes.length === 0) return
  const lines = notes.flatMap(({ id, logs }) => logs.map(({ atMs, text }) => ({ id, atMs, text })))
  await db.send('settle', NOTE, [
    arrayOf(notes.map(({ id }) => id)),
    arrayOf(notes.map(({ fence }) => fence)),
    arrayOf(notes.map(({ progress }) => progress)),
    arrayOf(lines.map(({ id }) => id)),
    arrayOf(lines.map(({ atMs }) => atMs)),
    arrayOf(lines.map(({ text }) => text)),
  ])
}
