// Records of worker processes and producers about single jobs, line by line, so that they survive a kill. They are read into
// tables beside the queue's, where a statement can compare both.

import { closeSync, openSync, readFileSync, writeSync } from 'node:fs'
import type pg from 'pg'

/** A record of a run: it began, it ended, or its settlement was confirmed. */
type RunMark = 'began' | 'ended' | 'settled'

export interface RunLine {
  readonly mark: RunMark
  readonly id: string
  readonly fence: number
  /** 0 if unknown. */
  readonly attempt: number
  /** The state for `settled`, the outcome for `ended`. */
  readonly word: string
  readonly atMs: number
}

/** A file of lines. Each line is written before the next thing happens. */
export class RecordFile {
  readonly #file: number

  constructor(path: string) {
    this.#file = openSync(path, 'a')
  }

  run({ mark, id, fence, attempt, word, atMs }: RunLine): void {
    writeSync(this.#file, `${mark} ${id} ${fence} ${attempt} ${word} ${atMs.toFixed(3)} ${process.pid}\n`)
  }

  accepted(seq: number, id: string): void {
    writeSync(this.#file, `${seq} ${id}\n`)
  }

  close(): void {
    closeSync(this.#file)
  }
}

/** The tables that records are read into, and the one that handlers write their effects to. */
export const RECORD_TABLES = `
CREATE SCHEMA experiment;
CREATE TABLE experiment.accepted (seq bigint NOT NULL, id uuid NOT NULL);
CREATE TABLE experiment.runs (
  mark text NOT NULL, id uuid NOT NULL, fence bigint NOT NULL, attempt integer NOT NULL,
  word text NOT NULL, at_ms float8 NOT NULL, pid integer NOT NULL
);
CREATE TABLE experiment.effects (seq bigint NOT NULL, sort text NOT NULL, id uuid NOT NULL);
-- What an idempotent handler relies on. Effects that commit with their settlement do without: the fence keeps a second one out.
CREATE UNIQUE INDEX effects_once_outside ON experiment.effects (seq) WHERE sort = 'outside'`

const CHUNK = 20_000

/** Reads files of accepted jobs into the table. */
export async function loadAccepted(client: pg.Client, paths: readonly string[]): Promise<number> {
  let count = 0
  for await (const rows of chunksOf(paths, 2)) {
    const [seqs, ids] = columnsOf(rows, 2)
    await client.query('INSERT INTO experiment.accepted SELECT * FROM unnest($1::bigint[], $2::uuid[])', [seqs, ids])
    count += rows.length
  }
  await client.query('CREATE INDEX ON experiment.accepted (id)')
  return count
}

/** Reads files of runs into the table. */
export async function loadRuns(client: pg.Client, paths: readonly string[]): Promise<void> {
  for await (const rows of chunksOf(paths, 7)) {
    await client.query(
      `INSERT INTO experiment.runs
       SELECT * FROM unnest($1::text[], $2::uuid[], $3::bigint[], $4::integer[], $5::text[], $6::float8[], $7::integer[])`,
      columnsOf(rows, 7),
    )
  }
  await client.query('CREATE INDEX ON experiment.runs (id, fence)')
  await client.query('ANALYZE experiment.runs, experiment.accepted, experiment.effects')
}

// The last line of a killed process may be incomplete: it has too few words and is skipped.
async function* chunksOf(paths: readonly string[], words: number): AsyncGenerator<string[][]> {
  for (const path of paths) {
    const text = readFileSync(path, 'utf8')
    const whole = text.slice(0, text.lastIndexOf('\n') + 1)
    const rows = whole
      .split('\n')
      .map((line) => line.split(' '))
      .filter((row) => row.length === words)
    for (let from = 0; from < rows.length; from += CHUNK) yield rows.slice(from, from + CHUNK)
  }
}

function columnsOf(rows: readonly string[][], count: number): string[][] {
  return Array.from({ length: count }, (_, index) => rows.map((row) => row[index]!))
}
