// The tables of the outbox. They may share a schema with a PostgreSQL store, so their migrations are counted apart.

import type { Migration } from '../postgres/migrations/migration.js'

/** Which of them were applied. */
export const MIGRATIONS_TABLE = 'outbox_migrations'

const first: Migration = {
  number: 1,
  name: 'outbox',
  sql: `
-- The life of the Redis server that has a shard (part): its number grows with each restart and failover. A row that was sent in an
-- earlier life may be lost there.
CREATE TABLE :schema.outbox_epochs (
  part       integer     NOT NULL PRIMARY KEY,
  number     bigint      NOT NULL,
  epoch      text        NOT NULL,
  past       text[]      NOT NULL DEFAULT '{}',
  changed_at timestamptz NOT NULL DEFAULT clock_timestamp());

-- One row a job, written by the transaction that enqueued it. The text of the job is what the store gets.
CREATE TABLE :schema.outbox (
  seq        bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id         uuid        NOT NULL CONSTRAINT outbox_one_row_for_a_job UNIQUE,
  part       integer     NOT NULL,
  job        text        NOT NULL,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  try_at     timestamptz NOT NULL DEFAULT '-infinity',
  tries      integer     NOT NULL DEFAULT 0,
  sent_at    timestamptz,
  sent_in    bigint,
  outcome    text        CONSTRAINT outbox_outcome_known
                         CHECK (outcome IN ('sent', 'replaced', 'deduplicated', 'refused', 'cancelled')),
  holder     uuid,
  why        text,
  CONSTRAINT outbox_outcome_when_sent CHECK ((sent_at IS NULL) = (outcome IS NULL)));

CREATE INDEX outbox_waiting ON :schema.outbox (part, try_at, seq) WHERE sent_at IS NULL;
CREATE INDEX outbox_sent ON :schema.outbox (part, sent_in, seq) WHERE outcome = 'sent';
CREATE INDEX outbox_old ON :schema.outbox (sent_at) WHERE outcome <> 'refused';
CREATE INDEX outbox_refused ON :schema.outbox (sent_at) WHERE outcome = 'refused';

-- One row a job that its handler completed in a transaction: the key decides between two runs that both try.
CREATE TABLE :schema.outbox_completions (
  id         uuid        NOT NULL PRIMARY KEY,
  part       integer     NOT NULL,
  fence      bigint      NOT NULL,
  completion text        NOT NULL,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  try_at     timestamptz NOT NULL DEFAULT '-infinity',
  tries      integer     NOT NULL DEFAULT 0,
  sent_at    timestamptz,
  sent_in    bigint);

CREATE INDEX outbox_completions_waiting ON :schema.outbox_completions (part, try_at) WHERE sent_at IS NULL;
CREATE INDEX outbox_completions_sent ON :schema.outbox_completions (part, sent_in) WHERE sent_at IS NOT NULL;
CREATE INDEX outbox_completions_old ON :schema.outbox_completions (sent_at) WHERE sent_at IS NOT NULL;

-- Since when completions are written here at all: before that no claim has to ask for them.
CREATE TABLE :schema.outbox_use (
  what       text        NOT NULL PRIMARY KEY,
  since      timestamptz NOT NULL DEFAULT clock_timestamp());
`,
}

const deletes: Migration = {
  number: 2,
  name: 'outbox_deletes',
  sql: `
-- Jobs that were deleted, by whom, and in which life of the server: a later one may have them again.
CREATE TABLE :schema.outbox_deletes (
  id         uuid        NOT NULL PRIMARY KEY,
  part       integer     NOT NULL,
  actor      text        NOT NULL,
  deleted_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  try_at     timestamptz NOT NULL DEFAULT '-infinity',
  sent_in    bigint      NOT NULL);

CREATE INDEX outbox_deletes_sent ON :schema.outbox_deletes (part, sent_in);
CREATE INDEX outbox_deletes_old ON :schema.outbox_deletes (deleted_at);
`,
}

export const OUTBOX_MIGRATIONS: readonly Migration[] = [first, deletes]
