// write, read: output of running jobs. ◄── worker/output-writes.ts, client/read-output.ts

import { OUTPUT_PAGE_LENGTH, type OutputWrite } from '../../core/kept/contract.js'
import type { OutputChunk, OutputPage } from '../../core/kept/kept.js'
import type { Database } from './database.js'
import { arrayOf, plainArrayOf, type Row, readDate, readJson, statement } from './statement.js'

// The lock as in kept.ts: nothing is written after the lease has ended, so a reader that has seen the end has seen everything.
const WRITE = statement(
  'write',
  `
WITH held AS MATERIALIZED (
  SELECT written.*, row.attempt
    FROM unnest($2::uuid[], $3::bigint[], $4::integer[], $5::integer[], $6::json[])
           WITH ORDINALITY AS written (id, fence, at_offset, length, chunks, ordinal)
   CROSS JOIN LATERAL (
     SELECT running.attempt FROM :schema.running WHERE running.id = written.id AND running.fence = written.fence FOR KEY SHARE
   ) AS row
), into_output AS (
  INSERT INTO :schema.output (id, at_offset, length, attempt, at, chunks)
  SELECT held.id, held.at_offset, held.length, held.attempt, coalesce($1::timestamptz, clock_timestamp()), held.chunks
    FROM held
      ON CONFLICT ON CONSTRAINT output_once_at_each_offset DO NOTHING
)
SELECT ordinal::text FROM held`,
)

export async function write(db: Database, writes: readonly OutputWrite[]): Promise<readonly boolean[]> {
  if (writes.length === 0) return []
  const rows = await db.send('settle', WRITE, [
    db.now(),
    plainArrayOf(writes.map(({ id }) => id)),
    plainArrayOf(writes.map(({ fence }) => fence)),
    plainArrayOf(writes.map(({ offset }) => offset)),
    plainArrayOf(writes.map(({ chunks }) => chunks.reduce((length, text) => length + text.length, 0))),
    arrayOf(writes.map(({ chunks }) => JSON.stringify(chunks))),
  ])
  const held = new Set(rows.map(([ordinal]) => Number(ordinal)))
  return writes.map((_, index) => held.has(index + 1))
}

const HAS_ENDED = statement(
  'has_ended',
  `
SELECT EXISTS (SELECT FROM :schema.finished WHERE finished.id = jobs.id) OR EXISTS (SELECT FROM :schema.dead WHERE dead.id = jobs.id)
  FROM :schema.jobs
 WHERE jobs.id = $1::uuid`,
)

// From the row in which the offset lies. No row is long, so the limit bounds the answer.
const READ = statement(
  'read_output',
  `
SELECT page.at_offset, page.attempt, page.at_ms, page.chunks, page.before >= $3
  FROM (SELECT output.at_offset, output.attempt, (extract(epoch FROM output.at) * 1000)::float8 AS at_ms, output.chunks,
               coalesce(sum(output.length) OVER (ORDER BY output.at_offset ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS before
          FROM (SELECT * FROM :schema.output
                 WHERE output.id = $1::uuid
                   AND output.at_offset >= coalesce((SELECT max(first.at_offset) FROM :schema.output AS first
                                                      WHERE first.id = $1::uuid AND first.at_offset <= $2), 0)
                 ORDER BY output.at_offset
                 LIMIT 1000) AS output) AS page
 WHERE page.before < $3 OR page.before = 0
 ORDER BY page.at_offset`,
)

const ROWS_MAX = 1_000

export async function read(db: Database, id: string, from: number): Promise<OutputPage | null> {
  // Whether it has ended first: what is read after that is all there is.
  const [[ended] = [], rows] = await db.sendTogether('look', [
    [HAS_ENDED, [id]],
    [READ, [id, from, OUTPUT_PAGE_LENGTH]],
  ])
  if (ended === undefined) return null
  const length = rows!.reduce((sum, [, , , chunks]) => sum + chunks!.length, 0)
  const isWhole = rows!.length < ROWS_MAX && length < OUTPUT_PAGE_LENGTH
  return {
    chunks: rows!.flatMap(readChunks).filter(({ offset }) => offset >= from),
    isOver: ended[0] === 't' && isWhole,
  }
}

function readChunks([offset, attempt, at, chunks]: Row): OutputChunk[] {
  let next = Number(offset)
  return (readJson(chunks) as string[]).map((text) => {
    const begin = next
    next += text.length
    return { offset: begin, next, text, attempt: Number(attempt), at: readDate(at)! }
  })
}
