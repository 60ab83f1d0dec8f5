import type { Migration } from './migration.js'

export const keysByNext: Migration = {
  number: 17,
  name: 'keys_by_next',
  sql: `-- concurrently
-- The key that a successor waits for.
CREATE INDEX CONCURRENTLY keys_by_next ON :schema.keys (next) WHERE next IS NOT NULL;
`,
}
