// Job ids: UUIDv7, made by the client so that sending the same job again after a broken connection changes nothing.
// Their time comes from the store's clock as well as the client knows it, so ids sort by age and fall into the right day.

import type { Random } from './ports.js'

const POOL_BYTES = 8 * 512

/** Returns a maker of ids that grow within this process. `nowMs` is the store's time. */
export function idMaker(nowMs: () => number, random: Random): () => string {
  const pool = new Uint8Array(POOL_BYTES)
  let used = POOL_BYTES
  let lastMs = 0
  let sequence = 0

  return () => {
    if (used === POOL_BYTES) {
      random.fill(pool)
      used = 0
    }
    const ms = Math.max(0, Math.floor(nowMs()))
    if (ms > lastMs) {
      lastMs = ms
      // Starting low leaves room to count within the millisecond.
      sequence = ((pool[used]! << 8) | pool[used + 1]!) & 0x3ff
    } else if (++sequence > 0xfff) {
      // More than a sequence holds: borrow from the next millisecond, so that order is kept.
      lastMs++
      sequence = 0
    }
    const id = format(lastMs, sequence, pool, used)
    used += 8
    return id
  }
}

const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'))

function format(ms: number, sequence: number, pool: Uint8Array, from: number): string {
  const high = Math.floor(ms / 0x10000)
  const low = ms & 0xffff
  return (
    HEX[(high >>> 24) & 0xff]! +
    HEX[(high >>> 16) & 0xff]! +
    HEX[(high >>> 8) & 0xff]! +
    HEX[high & 0xff]! +
    '-' +
    HEX[low >>> 8]! +
    HEX[low & 0xff]! +
    '-' +
    HEX[0x70 | (sequence >>> 8)]! +
    HEX[sequence & 0xff]! +
    '-' +
    HEX[0x80 | (pool[from]! & 0x3f)]! +
    HEX[pool[from + 1]!]! +
    '-' +
    HEX[pool[from + 2]!]! +
    HEX[pool[from + 3]!]! +
    HEX[pool[from + 4]!]! +
    HEX[pool[from + 5]!]! +
    HEX[pool[from + 6]!]! +
    HEX[pool[from + 7]!]!
  )
}

/** The time an id was made, in milliseconds since 1970. */
export function idTimeMs(id: string): number {
  return Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16)
}
