import { CLAIM_FLOW_25 } from '../claim-flow-function.js'
import type { Migration } from './migration.js'

export const claimAhead: Migration = {
  number: 25,
  name: 'claim_ahead',
  sql: `-- The claim of queues with flow control. A worker may claim more than it has slots for: at most one turn of each group.
-- The functions before it were in no release.
DROP FUNCTION IF EXISTS :schema.claim_flow_15(timestamptz, text, integer, text[], float8, text, integer[], bigint[]);
DROP FUNCTION IF EXISTS :schema.claim_flow_18(timestamptz, text, integer, text[], float8, text, integer[], bigint[], text[], integer[]);
${CLAIM_FLOW_25}`,
}
