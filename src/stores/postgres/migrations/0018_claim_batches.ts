import { CLAIM_FLOW_18 } from '../claim-flow-function.js'
import type { Migration } from './migration.js'

export const claimBatches: Migration = {
  number: 18,
  name: 'claim_batches',
  sql: `-- Claims take several jobs of a group that runs one at a time for a worker that runs them together.
${CLAIM_FLOW_18}`,
}
