import type { Migration } from './migration.js'

export const cancels: Migration = {
  number: 5,
  name: 'cancels',
  sql: `-- Cancels asked for while the job's row in running was locked, most often by a handler's open transaction. Waiting for that would
-- hold up everything behind, so the wish is kept here: settle, extend and watch honour it, and promote moves it into running
-- when the row is free.
CREATE TABLE :schema.cancels (
  id uuid NOT NULL,
  CONSTRAINT cancels_one_for_each_job PRIMARY KEY (id)
);
`,
}
