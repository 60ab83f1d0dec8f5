import { CLAIM_FLOW_15 } from '../claim-flow-function.js'
import type { Migration } from './migration.js'

export const claimFlow: Migration = {
  number: 15,
  name: 'claim_flow',
  sql: `-- The claim of queues with flow control.
${CLAIM_FLOW_15}`,
}
