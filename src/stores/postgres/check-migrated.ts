// For those who connect to look and not to change: the schema must be there and up to date. A name that was mistyped would otherwise
// become a new, empty queue that nobody works on.

import { closest } from '../../core/closest.js'
import { HoldfastError } from '../../core/errors.js'
import { readApplied } from './migrate.js'
import { MIGRATIONS } from './migrations/index.js'
import type { Row } from './statement.js'
import type { StatementLane } from './statement-lane.js'

const DEADLINE_MS = 10_000
/** How many schemas are read to find the one that was meant, and how many a message names. */
const SCHEMAS_MAX = 1_000
const NAMED_MAX = 5

// Ours are known by two of their tables: others have one called migrations too. From the catalog, which every role may read:
// to_regclass would fail at the first schema that this role may not use.
const SCHEMAS = `
SELECT pg_namespace.nspname
  FROM pg_catalog.pg_class AS ready
  JOIN pg_catalog.pg_class AS migrations ON migrations.relnamespace = ready.relnamespace AND migrations.relname = 'migrations'
  JOIN pg_catalog.pg_namespace ON pg_namespace.oid = ready.relnamespace
 WHERE ready.relname = 'ready'
 ORDER BY pg_namespace.nspname
 LIMIT $1`

/** Raises `schema_missing` unless the schema has every migration of this version, and `schema_too_new` when it has more. */
export async function checkMigrated(lane: StatementLane, schema: string): Promise<void> {
  const run = (text: string, values: readonly unknown[] = []) => lane.query({ name: '', text, values }, DEADLINE_MS)
  const applied = await readApplied(run, schema, MIGRATIONS)
  if (MIGRATIONS.every(({ number }) => applied.has(number))) return
  const newest = Math.max(0, ...applied)
  if (newest > 0) {
    const needed = MIGRATIONS.at(-1)!.number
    throw new HoldfastError(
      'schema_missing',
      `schema "${schema}" is at migration ${newest}, this version needs ${needed}: run \`holdfast migrate up\`, or start a worker or a server of this version`,
      { details: { schema, applied: newest, known: needed } },
    )
  }
  const [[database] = []] = await run('SELECT current_database()')
  const existing = (await run(SCHEMAS, [SCHEMAS_MAX])).map(([name]: Row) => name!)
  throw new HoldfastError(
    'schema_missing',
    `schema "${schema}" has no tables of Holdfast in database "${database}"; ${describe(schema, existing)}; \`holdfast migrate up\` makes it, and so does the start of a worker or a server`,
    { details: { schema, database, existing: existing.slice(0, NAMED_MAX) } },
  )
}

function describe(schema: string, existing: readonly string[]): string {
  if (existing.length === 0) return 'no other schema there has them either'
  const meant = closest(schema, existing)
  if (meant !== null) return `did you mean "${meant}"?`
  const more = existing.length > NAMED_MAX ? ', …' : ''
  const named = existing.slice(0, NAMED_MAX).map((name) => `"${name}"`)
  return `these have them: ${named.join(', ')}${more}`
}
