// The migrations as one script that another program can run.

import { createHash } from 'node:crypto'
import { isConcurrent } from '../stores/postgres/migrate.js'
import { MIGRATIONS } from '../stores/postgres/migrations/index.js'
import { checkSchema, inSchema } from '../stores/postgres/statement.js'

export interface MigrationScript {
  readonly schema: string
  readonly migrations: readonly { readonly number: number; readonly name: string }[]
  readonly sql: string
}

// Everyone waits behind a migration that waits for a lock, so it gives up soon: run the script again then.
const BEGIN = `BEGIN;
SET LOCAL lock_timeout = '2s';`
const LOCK = 'LOCK TABLE :schema.migrations IN SHARE ROW EXCLUSIVE MODE;'

// Asks for a right on the database also where the schema is there, so it is left out then.
const NEW_SCHEMA = `CREATE SCHEMA IF NOT EXISTS :schema;
CREATE TABLE IF NOT EXISTS :schema.migrations (
  number     integer     NOT NULL PRIMARY KEY,
  name       text        NOT NULL,
  checksum   text        NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT clock_timestamp());`

/** The script; `only` names the migrations it is to have, null for all of them. */
export function migrationScript(name: string | undefined, only: ReadonlySet<number> | null): MigrationScript {
  const schema = checkSchema(name ?? 'holdfast')
  const chosen = MIGRATIONS.filter(({ number }) => only?.has(number) ?? true)
  const isNew = chosen[0]?.number === 1
  const parts = chosen.map((migration, index) => {
    const { number, name: title, sql } = migration
    const checksum = createHash('sha256').update(sql).digest('hex')
    const record = `INSERT INTO :schema.migrations (number, name, checksum) VALUES (${number}, '${title}', '${checksum}');`
    const whole = `-- ${String(number).padStart(4, '0')} ${title}\n${sql.trimEnd()}\n${record}`
    // An index on a table that is in use is built outside a transaction; on one that is new it need not be.
    if (isConcurrent(migration)) return isNew ? inTransaction(whole.replace(' CONCURRENTLY ', ' ')) : whole
    return inTransaction(whole, isNew && index === 0 ? NEW_SCHEMA : '')
  })
  const migrations = chosen.map(({ number, name: title }) => ({ number, name: title }))
  const body = parts.length === 0 ? ['-- nothing is missing'] : parts.map((part) => inSchema(part, schema))
  return { schema, migrations, sql: body.join('\n\n') }
}

function inTransaction(sql: string, before = ''): string {
  const begin = [BEGIN, before, LOCK].filter((part) => part !== '').join('\n')
  return `${begin}\n\n${sql}\n\nCOMMIT;`
}
