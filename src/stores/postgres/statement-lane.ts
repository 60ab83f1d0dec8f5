// What the store needs of a connection with a purpose, whether that is its own (lane.ts), one of a few that all purposes share
// (shared-lanes.ts), or one that a pool of the user lends (pooled-lane.ts).

import type { Lane } from './lane.js'

export type StatementLane = Pick<
  Lane,
  'query' | 'queryTogether' | 'transaction' | 'hangUp' | 'renew' | 'cancelRunning' | 'close'
>
