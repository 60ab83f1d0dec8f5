import type { Migration } from './migration.js'

export const linkChecks: Migration = {
  number: 6,
  name: 'link_checks',
  sql: `-- Jobs whose links must be looked at: a job that was made with parents, or one that has ended and has children. The row is written in the
-- transaction that makes the link or the ending, so any transaction that sees it sees that too, and looks with a newer snapshot than either side
-- had. A job may stand here twice, and each row is removed by a look that saw it.
--
-- A row with a time is a child's second look. A settlement that began before the child was committed and ends after its first look
-- saw no child, and was not seen. Fifteen seconds later it is over, because no call waits for more than ten.
CREATE TABLE :schema.link_checks (
  job     uuid        NOT NULL,
  look_at timestamptz NOT NULL DEFAULT '-infinity'
) WITH (fillfactor = 100, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX link_checks_by_job ON :schema.link_checks (job);
CREATE INDEX link_checks_by_time ON :schema.link_checks (look_at, job);
`,
}
