import { REPLACE_PAYLOAD } from '../replace-function.js'
import { UNBLOCK_REPLACE } from '../unblock-function.js'
import { WALK_HELD } from '../walk-function.js'
import type { Migration } from './migration.js'

export const replacePayload: Migration = {
  number: 14,
  name: 'replace',
  sql: `-- Debounce and replace: a job that waits takes the payload of a newer one, and one that runs gets a successor. And queues whose held jobs
-- are many: what a changed setting means for them is done a few at a time.
ALTER TABLE :schema.keys ADD COLUMN next uuid;              -- the job that waits until the one that has the key has ended
${REPLACE_PAYLOAD}${UNBLOCK_REPLACE}${WALK_HELD}`,
}
