// The shards of a store: their hash tags, and which shard has what. A store has one shard, {hf:0}, or sixteen in a cluster, for good.

/** Shards of a store that is made in a cluster. */
export const SHARDS = 16

/** The hash tag of each shard. Their slots lie about 1,024 apart, so that nodes with as many slots have as many shards. */
const TAGS = [
  ...['hf:0', 'hf:1fa', 'hf:2tc', 'hf:3uc', 'hf:4ca', 'hf:5ba', 'hf:6oy', 'hf:7t'],
  ...['hf:8oa', 'hf:9na', 'hf:10ol', 'hf:11am', 'hf:12bm', 'hf:13cm', 'hf:14eu', 'hf:15du'],
]

/** What every key of a shard begins with. */
export function baseOf(prefix: string, shard: number): string {
  return `${prefix}{${TAGS[shard]!}}:`
}

/** The slot of a shard in a cluster: the CRC16 of its tag (XMODEM), modulo 16,384. */
export function slotOf(shard: number): number {
  let crc = 0
  for (const byte of Buffer.from(TAGS[shard]!)) {
    crc ^= byte << 8
    for (let bit = 0; bit < 8; bit++) crc = (crc & 0x8000) === 0 ? crc << 1 : (crc << 1) ^ 0x1021
    crc &= 0xffff
  }
  return crc % 16_384
}

/** The shard of a name, of a queue or a schedule: FNV-1a, with its bits mixed. It must never change. */
export function shardOfName(name: string, shards: number): number {
  let hash = 0x811c9dc5
  for (const byte of Buffer.from(name)) hash = Math.imul(hash ^ byte, 0x01000193)
  hash ^= hash >>> 16
  hash = Math.imul(hash, 0x85ebca6b)
  hash ^= hash >>> 13
  return (hash >>> 0) % shards
}

/** The id with the shard of its job as its last digit, which is random otherwise: any caller that knows the id finds the job in one call. */
export function markId(id: string, shard: number): string {
  return id.slice(0, -1) + shard.toString(16)
}

/** Where a job probably is. Another program, or an older version, may have made the id: then it can be anywhere. */
export function guessShard(id: string, shards: number): number {
  const digit = Number.parseInt(id.slice(-1), 16)
  return Number.isNaN(digit) ? 0 : digit % shards
}
