// The migrations as one script that another program can run.

import { createHash } from 'node:crypto'
import { knownMigrations } from '../stores/postgres/migrate.js'
import { checkSchema, inSchema } from '../stores/postgres/statement.js'

export interface MigrationScript {
  readonly schema: string
  readonly migrations: readonly { readonly number: number; readonly name: string }[]
  readonly sql: string
}

const BEGIN = `BEGIN;
SELECT pg_advisory_xact_lock(hashtextextended('holdfast migrate :schema_text', 0));`

// Asks for a right on the database also where the schema is there, so it is left out then.
const NEW_SCHEMA = `CREATE SCHEMA IF NOT EXISTS :schema;
CREATE TABLE IF NOT EXISTS :schema.migrations (
  number     integer     NOT NULL PRIMARY KEY,
  name       text        NOT NULL,
  checksum   text        NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT clock_timestamp());`

/** The script; `only` names the migrations it is to have, null for all of them. */
export async function migrationScript(
  name: string | undefined,
  only: ReadonlySet<number> | null,
): Promise<MigrationScript> {
  const schema = checkSchema(name ?? 'holdfast')
  const chosen = (await knownMigrations()).filter(({ number }) => only?.has(number) ?? true)
  const parts = chosen.map(({ number, name: title, sql }) => {
    const checksum = createHash('sha256').update(sql).digest('hex')
    const record = `INSERT INTO :schema.migrations (number, name, checksum) VALUES (${number}, '${title}', '${checksum}');`
    return `-- ${String(number).padStart(4, '0')} ${title}\n${inSchema(`${sql.trimEnd()}\n${record}`, schema)}`
  })
  const migrations = chosen.map(({ number, name: title }) => ({ number, name: title }))
  const begin = chosen[0]?.number === 1 ? `${BEGIN}\n${NEW_SCHEMA}` : BEGIN
  const body = parts.length === 0 ? ['-- nothing is missing'] : [inSchema(begin, schema), ...parts, 'COMMIT;']
  return { schema, migrations, sql: body.join('\n\n') }
}
