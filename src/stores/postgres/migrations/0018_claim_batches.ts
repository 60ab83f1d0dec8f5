import type { Migration } from './migration.js'

export const claimBatches: Migration = {
  number: 18,
  name: 'claim_batches',
  sql: '-- The claim of queues with flow control is that of migration 25.',
}
