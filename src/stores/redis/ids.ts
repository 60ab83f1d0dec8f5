// Job ids inside Redis: the 128 bits of the UUID in 22 characters that sort as the UUID does, because ids stand in many places and each
// byte counts. Three hex digits become two characters; the last group is padded with a zero.

const ALPHABET = '-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz'

/** Two characters for each value of 12 bits, and the three hex digits. */
const PAIRS = Array.from({ length: 4096 }, (_, value) => ALPHABET[value >> 6]! + ALPHABET[value & 63]!)
const DIGITS = Array.from({ length: 4096 }, (_, value) => value.toString(16).padStart(3, '0'))
/** The value of a character, by its code; 0 for those that stand in no id. */
const VALUES = Array.from({ length: 128 }, (_, code) => Math.max(0, ALPHABET.indexOf(String.fromCharCode(code))))
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/
/** Where the hex digits of a UUID stand; behind the last one a zero is read. */
const PLACES = [...'xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxxx'].flatMap((mark, place) => (mark === 'x' ? [place] : []))

/** The short form of a UUID. What is no UUID stays as it is, with a mark that no short id has: it is simply not found. */
export function shortId(id: string): string {
  if (!UUID.test(id)) return `?${id.replaceAll(/[\s,]/g, '_')}`
  let short = ''
  for (let at = 0; at < 33; at += 3) {
    short += PAIRS[(digitAt(id, PLACES[at]!) << 8) | (digitAt(id, PLACES[at + 1]!) << 4) | digitAt(id, PLACES[at + 2]!)]
  }
  return short
}

function digitAt(id: string, place: number): number {
  if (place === 36) return 0
  const code = id.charCodeAt(place)
  return code < 58 ? code - 48 : code - 87
}

/** The UUID of a short id. */
export function longId(short: string): string {
  let hex = ''
  for (let at = 0; at < 22; at += 2) hex += DIGITS[(valueAt(short, at) << 6) | valueAt(short, at + 1)]
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20, 32)}`
}

function valueAt(short: string, place: number): number {
  return VALUES[short.charCodeAt(place)] ?? 0
}
