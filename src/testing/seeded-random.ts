// Chance that repeats itself: the same seed gives the same jitter and the same ids.

import type { Random } from '../core/ports.js'

/** A source of chance for tests. Not for secrets: the seed gives every number away. */
export function seededRandom(seed: number = 1): Random {
  let state = seed >>> 0
  // The mulberry32 generator: 32 bits of state, good enough to spread jitter and tell ids apart.
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = state
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return (mixed ^ (mixed >>> 14)) >>> 0
  }
  return {
    float: () => next() / 2 ** 32,
    fill: (target) => {
      for (let index = 0; index < target.length; index++) target[index] = next() & 0xff
    },
  }
}
