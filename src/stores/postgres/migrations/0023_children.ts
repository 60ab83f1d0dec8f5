import { UNBLOCK_CHILDREN } from '../unblock-function.js'
import type { Migration } from './migration.js'

export const children: Migration = {
  number: 23,
  name: 'children',
  sql: `-- A job that waits for its children is blocked by them, as one that comes after others; it keeps what a job has that has run before.
ALTER TABLE :schema.blocked
  ADD COLUMN fence bigint,
  ADD COLUMN attempt smallint,
  ADD COLUMN crashes smallint,
  ADD COLUMN wakes_early boolean;             -- it goes on as soon as one of them is dead or cancelled
${UNBLOCK_CHILDREN}`,
}
