import type { Migration } from './migration.js'

export const kept: Migration = {
  number: 20,
  name: 'kept',
  sql: `-- What long jobs keep between attempts: steps that have finished, effects, and how waits ended. Jobs that keep nothing have no rows
-- here. The table is not cut into days: the rows of a job that was pruned are removed a few at a time (prune-kept.ts).
CREATE TABLE :schema.kept (
  id       uuid        NOT NULL,
  kind     text        COLLATE "C" NOT NULL,
  name     text        COLLATE "C" NOT NULL,
  fence    bigint      NOT NULL,              -- of the attempt that wrote it last
  attempt  smallint    NOT NULL,
  begun    smallint    NOT NULL,              -- how often; more than once only of an effect
  began_at timestamptz NOT NULL,
  ended_at timestamptz,                       -- null: the outcome of an effect is not known
  value    json,
  CONSTRAINT kept_once PRIMARY KEY (id, kind, name),
  CONSTRAINT kept_of_a_kind CHECK (kind IN ('step', 'effect', 'wait', 'child'))
) WITH (autovacuum_vacuum_insert_scale_factor = 0.2);

-- Effects that a provider may have seen twice, or whose outcome nobody knows.
CREATE INDEX kept_in_doubt ON :schema.kept (id, name) WHERE kind = 'effect' AND (begun > 1 OR ended_at IS NULL);
`,
}
