import type { Migration } from './migration.js'

export const output: Migration = {
  number: 22,
  name: 'output',
  sql: `-- Output of jobs. A row holds what was written together; its chunks follow each other from its offset on.
CREATE TABLE :schema.output (
  id        uuid        NOT NULL,
  at_offset integer     NOT NULL,
  length    integer     NOT NULL,
  attempt   smallint    NOT NULL,
  at        timestamptz NOT NULL,
  chunks    json        NOT NULL,             -- json, so that no NUL and no lone surrogate makes it fail
  CONSTRAINT output_once_at_each_offset PRIMARY KEY (id, at_offset)
) WITH (autovacuum_vacuum_insert_scale_factor = 0.2);
`,
}
