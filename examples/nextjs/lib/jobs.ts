// The definitions: all that routes, actions and the worker share.

import { defineJob } from 'holdfast'

export interface Order {
  readonly item: string
  readonly count: number
}

export const shipOrder = defineJob<Order, { parcels: number }>('ship_order', { queue: 'orders', maxAttempts: 10 })
