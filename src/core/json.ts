// Values on their way to the store. A payload that cannot be stored is refused at enqueue; a result, an error or a log
// line is made storable whatever it holds, because a state change must never depend on it.

import { HoldfastError } from './errors.js'

export const PAYLOAD_BYTES_MAX: number = 1024 * 1024
export const RESULT_BYTES_MAX: number = 1024 * 1024
export const ERROR_BYTES_MAX: number = 16 * 1024
export const LOG_LINE_BYTES_MAX: number = 4 * 1024
/** Deeper values overflow parsers elsewhere long before they overflow ours. */
export const JSON_DEPTH_MAX: number = 500

/** The payload of one job as JSON text; raises `invalid_payload` or `payload_too_large`. `undefined` is stored as null. */
export function encodePayload(type: string, value: unknown, bytesMax: number): string {
  const text = stringify(type, value)
  // UTF-8 takes at most three bytes for each of these units, so short texts need no counting.
  if (text.length * 3 > bytesMax) {
    const bytes = Buffer.byteLength(text)
    if (bytes > bytesMax) {
      throw new HoldfastError(
        'payload_too_large',
        `the payload of "${type}" is ${bytes} bytes, the limit is ${bytesMax}: store the data elsewhere and enqueue a reference to it`,
        { details: { bytes, bytesMax } },
      )
    }
  }
  if (isDeeperThan(JSON_DEPTH_MAX, text)) {
    throw new HoldfastError(
      'invalid_payload',
      `the payload of "${type}" is nested deeper than ${JSON_DEPTH_MAX} levels: flatten it`,
    )
  }
  return text
}

function stringify(type: string, value: unknown): string {
  if (value === undefined) return 'null'
  let text: string | undefined
  try {
    text = JSON.stringify(value)
  } catch (cause) {
    const problem = cause instanceof RangeError ? 'it is nested too deeply' : String((cause as Error)?.message ?? cause)
    throw new HoldfastError(
      'invalid_payload',
      `the payload of "${type}" cannot be written as JSON: ${problem.split('\n')[0]}`,
      { cause },
    )
  }
  if (text !== undefined) return text
  throw new HoldfastError('invalid_payload', `the payload of "${type}" must be a JSON value, got ${typeof value}`)
}

/** True for JSON text that is nested deeper than `depthMax`, without parsing it: a parser would recurse into it. */
export function isDeeperThan(depthMax: number, json: string): boolean {
  // Each level takes two characters.
  if (json.length <= 2 * depthMax) return false
  let depth = 0
  let isInString = false
  for (let index = 0; index < json.length; index++) {
    const unit = json.charCodeAt(index)
    if (isInString) {
      if (unit === 0x5c) index++
      else if (unit === 0x22) isInString = false
    } else if (unit === 0x22) isInString = true
    else if (unit === 0x7d || unit === 0x5d) depth--
    else if ((unit === 0x7b || unit === 0x5b) && ++depth > depthMax) return true
  }
  return false
}

/** A handler's result as JSON text, or null for none. Never raises: what cannot be stored becomes a marker in its place. */
export function encodeResult(value: unknown): string | null {
  if (value === undefined) return null
  try {
    const text = JSON.stringify(value)
    if (text === undefined) return marker(`a ${typeof value} is not a JSON value`)
    const bytes = Buffer.byteLength(text)
    if (bytes > RESULT_BYTES_MAX) return marker(`${bytes} bytes, the limit is ${RESULT_BYTES_MAX}`)
    if (isDeeperThan(JSON_DEPTH_MAX, text)) return marker('nested too deeply')
    return text
  } catch (error) {
    return marker(safeText(readMessage(error), 200))
  }
}

function marker(why: string): string {
  return JSON.stringify({ unserializable: true, why })
}

/** An error as it is kept with a job. */
export interface StoredError {
  readonly name: string
  readonly message: string
  readonly code?: string
  readonly stack?: string
}

/** What was thrown, made safe to store and short enough to keep. Never raises, whatever was thrown. */
export function encodeError(thrown: unknown): StoredError {
  try {
    if (!(thrown instanceof Error))
      return { name: 'Error', message: safeText(readMessage(thrown), ERROR_BYTES_MAX / 4) }
    const code: unknown = (thrown as { code?: unknown }).code
    const stack: unknown = thrown.stack
    return {
      name: safeText(String(thrown.name), 100),
      message: safeText(String(thrown.message), ERROR_BYTES_MAX / 4),
      ...(typeof code === 'string' ? { code: safeText(code, 100) } : {}),
      ...(typeof stack === 'string' ? { stack: safeText(stack, ERROR_BYTES_MAX / 2) } : {}),
    }
  } catch {
    return { name: 'Error', message: 'what was thrown cannot be read' }
  }
}

function readMessage(thrown: unknown): string {
  try {
    if (thrown instanceof Error) return String(thrown.message)
    if (typeof thrown === 'object' && thrown !== null) return JSON.stringify(thrown) ?? String(thrown)
    return String(thrown)
  } catch {
    return 'what was thrown cannot be read'
  }
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: NUL is what it looks for, PostgreSQL text cannot hold it
const UNSTORABLE = /\u0000|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g

/** Text any store can hold: NUL and lone surrogates replaced, cut with a marker when it is over `bytesMax`. */
export function safeText(text: string, bytesMax: number): string {
  // A unit takes at least one byte, so what is beyond the limit in units is beyond it in bytes: cut before replacing.
  let safe = (text.length > bytesMax ? text.slice(0, bytesMax) : text).replace(UNSTORABLE, '\ufffd')
  if (safe.length * 3 <= bytesMax && text.length <= bytesMax) return safe
  if (Buffer.byteLength(safe) <= bytesMax && text.length <= bytesMax) return safe
  const room = Math.max(0, bytesMax - 16)
  while (Buffer.byteLength(safe) > room) safe = safe.slice(0, Math.floor(safe.length * 0.9)).replace(UNSTORABLE, '')
  return `${safe}… (cut)`
}
