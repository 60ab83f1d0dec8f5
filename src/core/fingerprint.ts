// Groups errors: two errors that differ only in numbers, ids, quoted values and the like have one fingerprint.

import type { StoredError } from './json.js'

// In this order: what a later rule would tear apart goes first.
const PLACEHOLDERS: readonly (readonly [RegExp, string])[] = [
  [/\b[a-z][a-z0-9+.-]*:\/\/[^\s"'<>()]+/gi, '<url>'],
  [/\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/gi, '<uuid>'],
  [/\b\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?/g, '<date>'],
  [/"[^"]*"|'[^']*'|`[^`]*`/g, '<text>'],
  [/[\w.+-]+@[\w-]+\.[\w.-]+/g, '<address>'],
  [/\b0x[0-9a-f]+\b/gi, '<hex>'],
  [/\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,}\b/gi, '<hex>'],
  [/\d+(?:[.,:]\d+)*/g, '<number>'],
]

// Long messages differ at their ends, where they quote what they are about.
const MESSAGE_LENGTH_MAX = 500

/** The fingerprint of an error, 14 hex digits; that of no error is the same for all. */
export function fingerprint(error: StoredError | null): string {
  if (error === null) return hash('')
  return hash(`${error.name}\n${error.code ?? ''}\n${normalise(error.message)}\n${topFrame(error.stack)}`)
}

/** A message with what varies replaced. */
export function normalise(message: string): string {
  let text = message.slice(0, MESSAGE_LENGTH_MAX)
  for (const [pattern, placeholder] of PLACEHOLDERS) text = text.replace(pattern, placeholder)
  return text.replace(/\s+/g, ' ').trim()
}

/** Function and file of the first frame, without folder, line and column: those change with every deploy. */
function topFrame(stack: string | undefined): string {
  const frame = stack?.split('\n').find((line) => /^\s+at\s/.test(line))
  const found = /^\s+at (?:(?:async )?(.*?) \()?(?:.*[\\/])?([^\\/()]*?)(?::\d+)?(?::\d+)?\)?$/.exec(frame ?? '')
  return found === null ? '' : `${found[1] ?? ''} ${found[2]}`
}

// Two 32-bit rounds mixed into 53 bits (cyrb53): not for secrets, and for the thousands of errors a queue may meet the
// chance of two alike is below one in a hundred million.
function hash(text: string): string {
  let one = 0xdeadbeef
  let other = 0x41c6ce57
  for (let index = 0; index < text.length; index++) {
    const unit = text.charCodeAt(index)
    one = Math.imul(one ^ unit, 2654435761)
    other = Math.imul(other ^ unit, 1597334677)
  }
  one = Math.imul(one ^ (one >>> 16), 2246822507) ^ Math.imul(other ^ (other >>> 13), 3266489909)
  other = Math.imul(other ^ (other >>> 16), 2246822507) ^ Math.imul(one ^ (one >>> 13), 3266489909)
  return (4294967296 * (2097151 & other) + (one >>> 0)).toString(16).padStart(14, '0')
}
