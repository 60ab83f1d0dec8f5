import type { Migration } from './migration.js'

export const operate: Migration = {
  number: 2,
  name: 'operate',
  sql: `-- What operators need beyond single jobs: groups of dead jobs, tallies and samples over time, bulk actions, API keys, and an
-- audit log with details. Nothing here is on the way of a job but two columns that stay empty while it lives.

-- What tells the errors of dead jobs apart. Null until somebody has computed it: core/fingerprint.ts is the one place that can.
ALTER TABLE :schema.dead ADD COLUMN fingerprint text COLLATE "C";

CREATE INDEX dead_by_fingerprint ON :schema.dead (fingerprint, id);
CREATE INDEX dead_by_queue_and_fingerprint ON :schema.dead (queue, fingerprint, id);

-- Retries are few among millions of timed jobs, and looked for most.
CREATE INDEX scheduled_retrying ON :schema.scheduled (id) WHERE retrying;

ALTER TABLE :schema.audit ADD COLUMN details json;

-- What happened in each ten seconds. The queue '' stands for all of them together: no queue has that name.
CREATE TABLE :schema.tallies (
  queue         text        COLLATE "C" NOT NULL,
  at            timestamptz NOT NULL,
  enqueued      bigint      NOT NULL,
  claimed       bigint      NOT NULL,
  succeeded     bigint      NOT NULL,
  failed        bigint      NOT NULL,
  retried       bigint      NOT NULL,
  dead          bigint      NOT NULL,
  cancelled     bigint      NOT NULL,
  rescued       bigint      NOT NULL,
  wait_ms_total float8      NOT NULL,
  run_ms_total  float8      NOT NULL,
  CONSTRAINT tallies_once_for_each_step PRIMARY KEY (queue, at)
) WITH (fillfactor = 80);

CREATE INDEX tallies_by_time ON :schema.tallies (at);

-- How much stood where, once in ten seconds. A queue without jobs has no row; '' always has one.
CREATE TABLE :schema.samples (
  queue        text        COLLATE "C" NOT NULL,
  at           timestamptz NOT NULL,
  blocked      bigint      NOT NULL,
  scheduled    bigint      NOT NULL,
  ready        bigint      NOT NULL,
  running      bigint      NOT NULL,
  retrying     bigint      NOT NULL,
  dead         bigint      NOT NULL,
  oldest_age_s float8      NOT NULL,
  CONSTRAINT samples_once_for_each_step PRIMARY KEY (queue, at)
);

CREATE INDEX samples_by_time ON :schema.samples (at);

-- Bulk actions. The cursor moves in the transaction of each batch, so a batch that was lost is done again and no other.
CREATE TABLE :schema.bulks (
  id         uuid        NOT NULL,
  action     text        NOT NULL,
  filter     json        NOT NULL,
  actor      text        NOT NULL,
  state      text        NOT NULL,
  per_second integer,                         -- null: as fast as it goes
  most       integer     NOT NULL,            -- jobs it touches at most
  expected   json,
  matched    integer     NOT NULL DEFAULT 0,
  done       integer     NOT NULL DEFAULT 0,
  refused    integer     NOT NULL DEFAULT 0,
  cursor     uuid,                            -- it has been through this job and the newer ones
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  error      text,
  CONSTRAINT bulks_one_for_each_id PRIMARY KEY (id),
  CONSTRAINT bulks_known_action CHECK (action IN ('cancel', 'requeue', 'discard')),
  CONSTRAINT bulks_known_state CHECK (state IN ('waiting', 'running', 'done', 'cancelled', 'failed'))
);

CREATE INDEX bulks_open ON :schema.bulks (updated_at, id) WHERE state IN ('waiting', 'running');

-- API keys: who may ask over HTTP, and for what. Only the hash of a secret is kept.
CREATE TABLE :schema.api_keys (
  id           text        COLLATE "C" NOT NULL,
  hash         bytea       NOT NULL,
  name         text        NOT NULL,
  scopes       text[]      NOT NULL,
  queues       text[],                        -- null: all
  created_at   timestamptz NOT NULL,
  expires_at   timestamptz,
  revoked_at   timestamptz,
  last_used_at timestamptz,
  CONSTRAINT api_keys_one_for_each_id PRIMARY KEY (id)
);
`,
}
