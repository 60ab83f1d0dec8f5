import type { Migration } from './migration.js'

export const startedByGroup: Migration = {
  number: 13,
  name: 'started_by_group',
  sql: `-- concurrently
-- Jobs of groups that have started and wait for a time: an ordered group may wait for them.
CREATE INDEX CONCURRENTLY scheduled_started_by_group ON :schema.scheduled (track, group_name) WHERE track <> 0 AND fence IS NOT NULL;
`,
}
