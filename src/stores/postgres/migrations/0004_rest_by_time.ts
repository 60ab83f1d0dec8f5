import type { Migration } from './migration.js'

export const restByTime: Migration = {
  number: 4,
  name: 'rest_by_time',
  sql: `-- concurrently
-- Finished jobs in the default partition go one by one, oldest first: the index finds them, however many stay.
CREATE INDEX CONCURRENTLY finished_rest_new_by_time ON :schema.finished_rest_new (finished_at);
`,
}
