// Checks a structured filter that comes from outside: a caller of the library, or a bulk action written down by another
// version.

import { DURATION_MS_MAX } from './duration.js'
import {
  FILTER_FIELDS,
  FILTER_TERMS_MAX,
  FILTER_VALUES_MAX,
  type FilterField,
  type FilterProblem,
  invalidFilter,
} from './filter-fields.js'
import type { JobFilter } from './job-filter.js'

const OPS = ['=', '>', '>=', '<', '<='] as const
const NUMBER_MAX = 999_999_999
const PATH_MAX = 50
const SCALAR_LENGTH_MAX = 1_000

/** Raises `invalid_filter` unless `value` is a filter within the bounds of those that are read from text. */
export function checkFilter(value: unknown): JobFilter {
  if (!isObject(value)) throw problem({ expected: 'text or an object', got: value })
  let terms = 0
  for (const [name, content] of Object.entries(value)) {
    if (content === undefined) continue
    const field = FILTER_FIELDS.find((candidate) => candidate.name === name)
    if (field === undefined) {
      throw problem({ expected: 'a field of a filter', got: name, choices: FILTER_FIELDS.map((known) => known.name) })
    }
    terms += checkField(field, content)
  }
  if (terms > FILTER_TERMS_MAX) throw problem({ expected: `at most ${FILTER_TERMS_MAX} terms`, got: terms })
  return value as JobFilter
}

/** Checks one field and returns how many terms it makes. */
function checkField(field: FilterField, content: unknown): number {
  const { shape, name } = field
  const list = checkList(name, content)
  switch (shape) {
    case 'list':
    case 'none':
      checkValues(field, list)
      return 1
    case 'terms':
      for (const term of list) checkValues(field, checkList(name, term))
      return list.length
    case 'payload':
      for (const match of list) checkPayload(match)
      return list.length
    case 'numbers':
      for (const term of list) for (const match of checkList(name, term)) checkNumber(name, match)
      return list.length
    case 'times':
      for (const match of list) checkTime(name, match)
      return list.length
  }
}

function checkList(name: string, value: unknown): readonly unknown[] {
  if (Array.isArray(value) && value.length > 0 && value.length <= FILTER_VALUES_MAX) return value
  throw problem({ expected: `${name} as an array of 1 to ${FILTER_VALUES_MAX}`, got: value })
}

function checkValues({ name, values }: FilterField, list: readonly unknown[]): void {
  for (const value of list) {
    if (typeof value === 'string' && values.isValid(value)) continue
    throw problem({ expected: `${values.expected} in ${name}`, got: value, choices: values.choices ?? [] })
  }
}

function checkPayload(match: unknown): void {
  if (!isObject(match)) throw problem({ expected: '{ path, anyOf } in payload', got: match })
  const { path, anyOf } = match
  const isPath =
    Array.isArray(path) &&
    path.length > 0 &&
    path.length <= PATH_MAX &&
    path.every((part) => typeof part === 'string' && part !== '' && !/^[+-]/.test(part) && isStorable(part))
  if (!isPath) throw problem({ expected: 'a path of keys and indices in payload', got: path })
  if (anyOf === null) return
  for (const value of checkList('anyOf', anyOf)) {
    const isScalar =
      value === null ||
      typeof value === 'boolean' ||
      (typeof value === 'number' && Number.isFinite(value)) ||
      (typeof value === 'string' && value.length <= SCALAR_LENGTH_MAX && isStorable(value))
    if (!isScalar) throw problem({ expected: 'text, a number, true, false or null in anyOf', got: value })
  }
}

// A NUL or half a character is in no text a store can be asked about.
function isStorable(text: string): boolean {
  return /^[^\p{Cc}\p{Cs}]*$/u.test(text)
}

function checkNumber(name: string, match: unknown): void {
  const { op, value } = isObject(match) ? match : {}
  const isWhole = typeof value === 'number' && Number.isInteger(value) && Math.abs(value) <= NUMBER_MAX
  if (isWhole && OPS.includes(op as (typeof OPS)[number])) return
  throw problem({ expected: `{ op, value } with a whole number in ${name}`, got: match })
}

function checkTime(name: string, match: unknown): void {
  const { op, atMs, ageMs } = isObject(match) ? match : {}
  const isOne = (atMs === undefined) !== (ageMs === undefined)
  const isAt = typeof atMs === 'number' && Number.isInteger(atMs) && atMs >= 0 && atMs < Date.UTC(10_000, 0)
  const isAge = typeof ageMs === 'number' && Number.isInteger(ageMs) && ageMs >= 0 && ageMs <= DURATION_MS_MAX
  if (isOne && (isAt || isAge) && op !== '=' && OPS.includes(op as (typeof OPS)[number])) return
  throw problem({ expected: `{ op, atMs } or { op, ageMs } in ${name}`, got: match })
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function problem(found: Omit<FilterProblem, 'position'>): ReturnType<typeof invalidFilter> {
  return invalidFilter({ position: null, ...found })
}
