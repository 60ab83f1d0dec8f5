import { DELETE_JOBS } from '../delete-function.js'
import type { Migration } from './migration.js'

export const deleteJobs: Migration = {
  number: 28,
  name: 'delete_jobs',
  sql: `-- Deleting jobs with everything that is known of them (delete.ts).

ALTER TABLE :schema.bulks DROP CONSTRAINT bulks_known_action;
ALTER TABLE :schema.bulks ADD CONSTRAINT bulks_known_action CHECK (action IN ('cancel', 'requeue', 'discard', 'delete'));

-- Ids of deleted jobs, for a day: what processes say again after a failover must not bring them back. Nothing else reads them.
CREATE TABLE :schema.deleted (
  id uuid        NOT NULL,
  at timestamptz NOT NULL,
  CONSTRAINT deleted_once PRIMARY KEY (id)
);

CREATE INDEX deleted_by_time ON :schema.deleted (at);

${DELETE_JOBS}
REVOKE EXECUTE ON FUNCTION :schema.delete_jobs(timestamptz, uuid[], text) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION :schema.note_deleted(uuid[]) FROM PUBLIC;
`,
}
