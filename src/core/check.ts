// Checks for options and names. Every option is checked when it is given, and nothing is silently corrected.

import { HoldfastError, invalidOption, show } from './errors.js'

/** The longest queue or type name, in characters. */
export const NAME_LENGTH_MAX = 100
/** The longest idempotency key, in characters. */
export const KEY_LENGTH_MAX = 200
/** The most tags a job may carry, and the longest tag, in characters. */
export const TAGS_MAX = 16
export const TAG_LENGTH_MAX = 100

const NAME = /^[A-Za-z0-9][A-Za-z0-9._:/@-]*$/

/** Raises `invalid_name` unless `value` can name a queue, a type, a schedule or a worker. */
export function checkName(what: string, value: unknown): string {
  if (typeof value === 'string' && value.length <= NAME_LENGTH_MAX && NAME.test(value)) return value
  throw new HoldfastError(
    'invalid_name',
    `${what} must be 1 to ${NAME_LENGTH_MAX} characters, a letter or digit followed by letters, digits or . _ : / @ -, got ${show(value)}`,
  )
}

/** Raises `invalid_option` unless `value` can be an idempotency key: text without control characters, well formed. */
export function checkKey(value: unknown, what = 'idempotencyKey'): string {
  return checkText(what, value, KEY_LENGTH_MAX)
}

/** Raises `invalid_option` unless `value` is a list of tags; returns them without repeats. */
export function checkTags(value: unknown): readonly string[] {
  if (!Array.isArray(value) || value.length > TAGS_MAX) {
    throw invalidOption(`tags must be an array of at most ${TAGS_MAX} strings`, value)
  }
  return [...new Set(value.map((tag) => checkText('a tag', tag, TAG_LENGTH_MAX)))]
}

/** Raises `invalid_option` unless `value` is 1 to `lengthMax` characters of well-formed text without control characters. */
export function checkText(what: string, value: unknown, lengthMax: number): string {
  if (typeof value === 'string' && value.length > 0 && value.length <= lengthMax && isPlainText(value)) return value
  throw invalidOption(
    `${what} must be 1 to ${lengthMax} characters of well-formed text without control characters`,
    value,
  )
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it looks for
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/
const LONE_SURROGATE = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/

function isPlainText(text: string): boolean {
  return !CONTROL.test(text) && !LONE_SURROGATE.test(text)
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

/** True for a UUID in lower case with dashes: the only form an id has here. */
export function isId(value: unknown): value is string {
  return typeof value === 'string' && UUID.test(value)
}

/** Raises `invalid_option` unless `value` is a job's id. */
export function checkId(what: string, value: unknown): string {
  if (isId(value)) return value
  throw invalidOption(`${what} must be a job id (a lower-case UUID)`, value)
}

/** Raises `invalid_option` unless `value` is a whole number within the bounds. */
export function checkWhole(what: string, value: unknown, min: number, max: number): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max) return value
  throw invalidOption(`${what} must be a whole number from ${min} to ${max}`, value)
}

/** Raises `invalid_option` unless `value` is one of `choices`. */
export function checkChoice<const T extends string>(what: string, value: unknown, choices: readonly T[]): T {
  if (choices.includes(value as T)) return value as T
  throw invalidOption(`${what} must be one of ${choices.map((choice) => `'${choice}'`).join(', ')}`, value)
}

/** Raises `invalid_option` unless `value` is a boolean. */
export function checkBoolean(what: string, value: unknown): boolean {
  if (typeof value === 'boolean') return value
  throw invalidOption(`${what} must be true or false`, value)
}

/** Raises `invalid_option` unless `value` is a Date or an ISO string with a time zone, in a year from 1970 to 9999. */
export function checkDate(what: string, value: unknown): Date {
  const date = value instanceof Date ? value : readDate(value)
  const ms = date?.getTime() ?? Number.NaN
  if (date !== null && ms >= 0 && ms < Date.UTC(10_000, 0)) return date
  throw invalidOption(`${what} must be a Date or an ISO date with a time zone, in the years 1970 to 9999`, value)
}

const ISO = /^(\d{4})-(\d{2})-(\d{2})T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})$/

function readDate(value: unknown): Date | null {
  if (typeof value !== 'string') return null
  const match = ISO.exec(value)
  if (match === null) return null
  // Date rolls 30 February over into March without a word; a date that does not exist is refused instead.
  const [year, month, day] = [Number(match[1]), Number(match[2]), Number(match[3])]
  const calendar = new Date(Date.UTC(year, month - 1, day))
  if (calendar.getUTCMonth() !== month - 1 || calendar.getUTCDate() !== day) return null
  return new Date(value)
}

/** Raises `invalid_option` for a key of `options` that is not in `known`, and for anything that is no plain object. */
export function checkKeys(what: string, options: unknown, known: readonly string[]): void {
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    throw invalidOption(`${what} must be an object`, options)
  }
  for (const key of Object.keys(options)) {
    if (known.includes(key)) continue
    throw invalidOption(`${what} has no option ${show(key)}; it knows ${known.join(', ')}`)
  }
}
