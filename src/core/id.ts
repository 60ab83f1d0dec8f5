// Job ids: UUIDv7, made by the client so that sending the same job again after a broken connection changes nothing.
// Their time comes from the store's clock as well as the client knows it, so ids sort by age and fall into the right day.

import type { Random } from './ports.js'

const POOL_IDS = 512
const TAIL_BYTES = 8

/** Returns a maker of ids that grow within this process. `nowMs` is the store's time. */
export function idMaker(nowMs: () => number, random: Random): () => string {
  const pool = Buffer.alloc(POOL_IDS * TAIL_BYTES)
  // The random part of many ids is turned into text together; of each id only the time is new.
  let tails = ''
  let used = POOL_IDS
  let lastMs = -1
  let head = ''
  let sequence = 0

  return () => {
    if (used === POOL_IDS) {
      random.fill(pool)
      for (let at = 0; at < pool.length; at += TAIL_BYTES) pool[at] = 0x80 | (pool[at]! & 0x3f)
      tails = pool.toString('hex')
      used = 0
    }
    const ms = Math.max(0, Math.floor(nowMs()))
    if (ms > lastMs) {
      lastMs = ms
      head = headOf(ms)
      // Starting low leaves room to count within the millisecond.
      sequence = pool.readUInt16LE(used * TAIL_BYTES + 1) & 0x3ff
    } else if (++sequence > 0xfff) {
      // More than a sequence holds: borrow from the next millisecond, so that order is kept.
      head = headOf(++lastMs)
      sequence = 0
    }
    const at = used++ * 2 * TAIL_BYTES
    return `${head}${SEQUENCES[sequence]}-${tails.slice(at, at + 4)}-${tails.slice(at + 4, at + 16)}`
  }
}

// As text: three digits behind the version.
const SEQUENCES = Array.from({ length: 0x1000 }, (_, sequence) => `7${sequence.toString(16).padStart(3, '0')}`)

function headOf(ms: number): string {
  const time = ms.toString(16).padStart(12, '0')
  return `${time.slice(0, 8)}-${time.slice(8)}-`
}

/** The time an id was made, in milliseconds since 1970. */
export function idTimeMs(id: string): number {
  return Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16)
}
