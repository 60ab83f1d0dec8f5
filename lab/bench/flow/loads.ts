// What is drained: the same jobs without flow control, and with each kind of it.

import type { Client } from '../../../src/index.js'

export const FLOW_QUEUE = 'flow'

/** One kind of backlog. */
export interface Load {
  readonly name: string
  /** How many groups its jobs belong to; null for none. The backlog has at least one job of each, however few are drained. */
  readonly groups: number | null
  /** What is asked of its speed, as a share of that of plain jobs in the same round, by one process and by eight. */
  readonly aims: readonly [one: number | null, eight: number | null]
  readonly setUp: (client: Client) => Promise<void>
}

const limitedGroups = (client: Client) => client.setQueue(FLOW_QUEUE, { groups: { concurrency: 1 } })

/** The loads in the order of the table. The first is what the others are compared with. */
export const LOADS: readonly Load[] = [
  { name: 'plain', groups: null, aims: [null, null], setUp: async () => {} },
  {
    name: 'queue limit that does not bind',
    groups: null,
    aims: [0.9, null],
    setUp: (client) => client.setQueue(FLOW_QUEUE, { concurrency: 20_000 }),
  },
  {
    name: 'queue rate that does not bind',
    groups: null,
    aims: [0.9, null],
    setUp: (client) => client.setQueue(FLOW_QUEUE, { rate: { limit: 1_000_000, per: '1s', burst: 1_000_000 } }),
  },
  { name: '1,000 groups of limit 1', groups: 1_000, aims: [0.6, 0.5], setUp: limitedGroups },
  { name: '100,000 groups of limit 1', groups: 100_000, aims: [0.6, 0.5], setUp: limitedGroups },
  { name: '1,000,000 groups of limit 1', groups: 1_000_000, aims: [0.5, null], setUp: limitedGroups },
]

/** The group of a job. */
export function groupOf({ groups }: Load, n: number): string | null {
  return groups === null ? null : `tenant-${n % groups}`
}
