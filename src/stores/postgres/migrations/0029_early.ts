import type { Migration } from './migration.js'

export const early: Migration = {
  number: 29,
  name: 'early',
  sql: `-- Finished jobs that go before their day, because their queue keeps them for a shorter time than another (prune-early.ts).

-- For each retention that is shorter than the longest, how far the walk through the jobs has come.
CREATE TABLE :schema.early_walks (
  walk   text    COLLATE "C" NOT NULL,        -- the retention in ms, and whether it is that of queues without their own
  names  text[]  NOT NULL,                    -- the queues with it, or those with their own; another list begins anew
  passed uuid    NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
  CONSTRAINT early_walks_one_for_each_name PRIMARY KEY (walk)
);

-- Jobs that a walk has passed while they were unfinished, or had just finished.
CREATE TABLE :schema.early_later (
  walk text COLLATE "C" NOT NULL,
  id   uuid NOT NULL,
  CONSTRAINT early_later_once PRIMARY KEY (walk, id)
);
`,
}
