// The schema's migrations: numbered SQL files, applied once, in order, under a lock, so that any number of processes may start
// at the same moment.

import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { HoldfastError } from '../../core/errors.js'
import type { Lane } from './lane.js'
import { inSchema, type Row } from './statement.js'

const FOLDER = new URL('./migrations/', import.meta.url)
// Index builds on large tables take long; nothing else waits for this deadline.
const DEADLINE_MS = 300_000

export interface Migration {
  readonly number: number
  readonly name: string
  readonly sql: string
}

/** The migrations this version of the package knows, in order. */
export async function knownMigrations(): Promise<readonly Migration[]> {
  const files = (await readdir(FOLDER)).filter((file) => /^\d{4}_\w+\.sql$/.test(file)).sort()
  return Promise.all(
    files.map(async (file) => ({
      number: Number(file.slice(0, 4)),
      name: file.slice(5, -4),
      sql: await readFile(new URL(file, FOLDER), 'utf8'),
    })),
  )
}

/** Brings the schema up to this version; raises `schema_too_new` when it is ahead of it. */
export async function migrate(lane: Lane, schema: string): Promise<void> {
  const known = await knownMigrations()
  const last = known.at(-1)!.number
  const run = (text: string, values: unknown[] = []) => lane.query({ name: '', text, values }, DEADLINE_MS)
  // Most starts find everything in place, and may lack the right to change it.
  if ((await appliedNumber(run, schema, last)) === last) return

  await lane.transaction(async (send) => {
    const inside = (text: string, values: unknown[] = []) => send({ name: '', text, values })
    await inside('SELECT pg_advisory_xact_lock(hashtextextended($1, 0))', [`holdfast migrate ${schema}`])
    // Making a schema takes a right on the database, filling one that is there does not.
    const [found] = await inside('SELECT to_regnamespace($1)', [schema])
    if (found?.[0] === null) await inside(inSchema('CREATE SCHEMA :schema', schema))
    await inside(
      inSchema(
        `CREATE TABLE IF NOT EXISTS :schema.migrations (
           number     integer     NOT NULL PRIMARY KEY,
           name       text        NOT NULL,
           checksum   text        NOT NULL,
           applied_at timestamptz NOT NULL DEFAULT clock_timestamp())`,
        schema,
      ),
    )
    const applied = await appliedNumber(inside, schema, last)
    for (const migration of known) {
      if (migration.number <= applied) continue
      await inside(inSchema(migration.sql, schema))
      const checksum = createHash('sha256').update(migration.sql).digest('hex')
      const record = inSchema('INSERT INTO :schema.migrations (number, name, checksum) VALUES ($1, $2, $3)', schema)
      await inside(record, [migration.number, migration.name, checksum])
    }
  }, DEADLINE_MS)
}

/** The number of the last migration that was applied, 0 when there is none. */
async function appliedNumber(
  run: (text: string, values?: unknown[]) => Promise<Row[]>,
  schema: string,
  last: number,
): Promise<number> {
  const [table] = await run('SELECT to_regclass($1)', [`"${schema}".migrations`])
  if (table?.[0] === null || table?.[0] === undefined) return 0
  const [row] = await run(inSchema('SELECT coalesce(max(number), 0) FROM :schema.migrations', schema))
  const applied = Number(row![0])
  if (applied <= last) return applied
  throw new HoldfastError(
    'schema_too_new',
    `schema "${schema}" is at migration ${applied}, this version knows up to ${last}: upgrade the package before starting this process`,
    { details: { schema, applied, known: last } },
  )
}
