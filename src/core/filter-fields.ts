// What a filter can say: each field of JobFilter, the key it has in text, and the values it takes. Reading, writing and
// checking a filter all go by this table.

import { isId, KEY_LENGTH_MAX, NAME_LENGTH_MAX, TAG_LENGTH_MAX } from './check.js'
import { closest } from './closest.js'
import { HoldfastError, show } from './errors.js'
import { GROUP_LENGTH_MAX } from './flow/job-flow.js'
import type { JobFilter } from './job-filter.js'
import { DEAD_REASONS, JOB_STATES } from './states.js'

export const FILTER_LENGTH_MAX = 1_000
export const FILTER_TERMS_MAX = 20
export const FILTER_VALUES_MAX = 20
const TEXT_LENGTH_MAX = 200

/**
 * How a field keeps what its terms say. `list`: one term, any of its values. `none`: the values of all its terms, none of
 * which may match. `terms`: a list of values for each term. The others are kept as their names say.
 */
type FieldShape = 'list' | 'none' | 'terms' | 'payload' | 'numbers' | 'times'

/** The values a field takes. */
interface ValueKind {
  /** As in "expected …". */
  readonly expected: string
  readonly isValid: (text: string) => boolean
  /** All there are, where there are few. */
  readonly choices?: readonly string[]
}

export interface FilterField {
  readonly name: keyof JobFilter
  /** In text, with `-` in front where it is negated. */
  readonly key: string
  readonly shape: FieldShape
  readonly values: ValueKind
}

const NAME_PATTERN = /^[A-Za-z0-9*][A-Za-z0-9._:/@*-]*$/
const PLAIN_TEXT = /^[^\p{Cc}\p{Cs}]+$/u
export const WHOLE: RegExp = /^-?\d{1,9}$/

const STATE: ValueKind = { expected: 'a state', isValid: (text) => includes(JOB_STATES, text), choices: JOB_STATES }
const REASON: ValueKind = {
  expected: 'the reason of a death',
  isValid: (text) => includes(DEAD_REASONS, text),
  choices: DEAD_REASONS,
}
const NAME: ValueKind = {
  expected: 'a name, in which * stands for anything',
  isValid: (text) => text.length <= NAME_LENGTH_MAX && NAME_PATTERN.test(text),
}
const ID: ValueKind = { expected: "a job's whole id (a lower-case UUID)", isValid: isId }
const FINGERPRINT: ValueKind = { expected: 'a fingerprint (hex)', isValid: (text) => /^[0-9a-f]{1,32}$/.test(text) }
const NUMBER: ValueKind = { expected: 'a whole number, with =, <, <=, > or >= in front', isValid: () => true }
const TIME: ValueKind = {
  expected: '<, <=, > or >= and an age such as 2h or a date such as 2026-11-01 or 2026-11-01T10:00Z',
  isValid: () => true,
}
const SCALAR: ValueKind = { expected: 'a value', isValid: () => true }

function text(lengthMax: number): ValueKind {
  return {
    expected: `1 to ${lengthMax} characters of text`,
    isValid: (value) => value.length <= lengthMax && PLAIN_TEXT.test(value),
  }
}

function includes(choices: readonly string[], value: string): boolean {
  return choices.includes(value)
}

/** Every field, in the order a filter is written. */
export const FILTER_FIELDS: readonly FilterField[] = [
  { name: 'states', key: 'state', shape: 'list', values: STATE },
  { name: 'notStates', key: '-state', shape: 'none', values: STATE },
  { name: 'queues', key: 'queue', shape: 'list', values: NAME },
  { name: 'notQueues', key: '-queue', shape: 'none', values: NAME },
  { name: 'types', key: 'type', shape: 'list', values: NAME },
  { name: 'notTypes', key: '-type', shape: 'none', values: NAME },
  { name: 'tags', key: 'tag', shape: 'terms', values: text(TAG_LENGTH_MAX) },
  { name: 'notTags', key: '-tag', shape: 'none', values: text(TAG_LENGTH_MAX) },
  { name: 'reasons', key: 'reason', shape: 'list', values: REASON },
  { name: 'workers', key: 'worker', shape: 'list', values: text(TEXT_LENGTH_MAX) },
  { name: 'ids', key: 'id', shape: 'list', values: ID },
  { name: 'groups', key: 'group', shape: 'list', values: text(GROUP_LENGTH_MAX) },
  { name: 'keys', key: 'key', shape: 'list', values: text(KEY_LENGTH_MAX) },
  { name: 'schedules', key: 'schedule', shape: 'list', values: text(NAME_LENGTH_MAX) },
  { name: 'fingerprints', key: 'fingerprint', shape: 'list', values: FINGERPRINT },
  { name: 'errors', key: 'error', shape: 'terms', values: text(TEXT_LENGTH_MAX) },
  { name: 'payload', key: 'payload', shape: 'payload', values: SCALAR },
  { name: 'attempt', key: 'attempt', shape: 'numbers', values: NUMBER },
  { name: 'priority', key: 'priority', shape: 'numbers', values: NUMBER },
  { name: 'created', key: 'created', shape: 'times', values: TIME },
  { name: 'finished', key: 'finished', shape: 'times', values: TIME },
]

/** The keys as people write them. */
export const FILTER_KEYS: readonly string[] = FILTER_FIELDS.map(({ key }) =>
  key === 'payload' ? 'payload.<path>' : key,
)

/** What is wrong with a filter. */
export interface FilterProblem {
  /** Counted from 1; null for a filter that is no text. */
  readonly position: number | null
  readonly expected: string
  readonly got: unknown
  /** What there is to choose from; the one that comes closest is suggested. */
  readonly choices?: readonly string[]
  readonly suggestion?: string | undefined
}

/** `invalid_filter` for a problem. */
export function invalidFilter({ position, expected, got, choices = [], suggestion }: FilterProblem): HoldfastError {
  const meant = suggestion ?? (typeof got === 'string' ? closest(got, choices) : null)
  const where = position === null ? 'the filter' : `the filter at position ${position}`
  const known = choices.length > 0 ? ` (${choices.join(', ')})` : ''
  const hint = meant === null ? '' : `; did you mean ${show(meant)}?`
  return new HoldfastError('invalid_filter', `${where}: expected ${expected}${known}, got ${show(got)}${hint}`, {
    details: {
      position,
      expected,
      got: typeof got === 'string' ? got : show(got),
      suggestion: meant,
      keys: FILTER_KEYS,
    },
  })
}

const JSON_NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/

/** True for text that a payload's term reads as something other than itself, unless it is quoted. */
export function readsAsScalar(text: string): boolean {
  return text === 'true' || text === 'false' || text === 'null' || text === '*' || JSON_NUMBER.test(text)
}
