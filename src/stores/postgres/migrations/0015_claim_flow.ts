import type { Migration } from './migration.js'

export const claimFlow: Migration = {
  number: 15,
  name: 'claim_flow',
  sql: '-- The claim of queues with flow control is that of migration 25.',
}
