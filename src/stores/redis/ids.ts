// Job ids inside Redis: the 128 bits of the UUID in 22 characters that sort as the UUID does, because ids stand in many places and each
// byte counts. Three hex digits become two characters; the last group is padded with a zero.

const ALPHABET = '-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz'

const PAIRS = Array.from({ length: 4096 }, (_, value) => ALPHABET[value >> 6]! + ALPHABET[value & 63]!)
const VALUES = new Map(PAIRS.map((pair, value) => [pair, value.toString(16).padStart(3, '0')]))
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

/** The short form of a UUID. What is no UUID stays as it is, with a mark that no short id has: it is simply not found. */
export function shortId(id: string): string {
  if (!UUID.test(id)) return `?${id.replaceAll(/[\s,]/g, '_')}`
  const hex = `${id.slice(0, 8)}${id.slice(9, 13)}${id.slice(14, 18)}${id.slice(19, 23)}${id.slice(24)}0`
  let short = ''
  for (let at = 0; at < 33; at += 3) short += PAIRS[Number.parseInt(hex.slice(at, at + 3), 16)]
  return short
}

/** The UUID of a short id. */
export function longId(short: string): string {
  let hex = ''
  for (let at = 0; at < 22; at += 2) hex += VALUES.get(short.slice(at, at + 2)) ?? '000'
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20, 32)}`
}
