import type { Migration } from './migration.js'

export const runningByGroup: Migration = {
  number: 12,
  name: 'running_by_group',
  sql: `-- concurrently
-- What runs of a group, a track or a limit. Plain jobs are not in it.
CREATE INDEX CONCURRENTLY running_by_group ON :schema.running (track, group_name) WHERE track <> 0;
`,
}
