// What the store says about itself.

import type { StoreHealth } from '../../core/operating.js'

export function health(nowMs: number): StoreHealth {
  return { kind: 'memory', version: 'memory of this process', isDurable: false, nowMs, postgres: null }
}
