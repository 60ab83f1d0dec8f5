// One connection for each server process. It is kept outside of the module, which `next dev` loads again after every change.

import { connect, type Holdfast } from 'holdfast'

const kept = globalThis as { holdfast?: Promise<Holdfast> }

export function holdfast(): Promise<Holdfast> {
  // Routes only enqueue: the worker beside them does the upkeep, and few connections are enough.
  kept.holdfast ??= connect(process.env.HOLDFAST_URL, { upkeep: false, connections: 3 }).catch((error) => {
    kept.holdfast = undefined
    throw error
  })
  return kept.holdfast
}
