// The filter language: what narrows a list, in the library, the CLI, the HTTP API and the dashboard alike.
//
//   state:dead,retrying queue:mail_* -tag:test error:"timed out" payload.user.id:42 attempt:>3 created:<1h
//
// Terms are separated by blanks and all must match; values of one term are separated by commas and one must. Values with
// blanks, commas or quotes are written in double quotes, in which \" and \\ stand for " and \. filter-match.ts says what
// each means, filter-fields.ts which there are.

import { checkDate, isId } from './check.js'
import { DURATION_MS_MAX, durationMs } from './duration.js'
import { checkFilter } from './filter-check.js'
import {
  FILTER_FIELDS,
  FILTER_KEYS,
  FILTER_LENGTH_MAX,
  FILTER_TERMS_MAX,
  FILTER_VALUES_MAX,
  type FilterField,
  invalidFilter,
  readsAsScalar,
  WHOLE,
} from './filter-fields.js'
import type { Comparison, JobFilter, JsonScalar, NumberMatch, PayloadMatch, TimeMatch } from './job-filter.js'

/** The structured filter of a text or of a value that claims to be one already. Raises `invalid_filter`. */
export function readFilter(value: unknown): JobFilter {
  return typeof value === 'string' ? parseFilter(value) : checkFilter(value)
}

/** Reads a filter. Raises `invalid_filter` with the position, what was expected there, and the word that comes closest. */
export function parseFilter(text: string): JobFilter {
  if (text.length > FILTER_LENGTH_MAX) {
    throw invalidFilter({
      position: FILTER_LENGTH_MAX + 1,
      expected: `at most ${FILTER_LENGTH_MAX} characters`,
      got: `${text.length} of them`,
    })
  }
  const reader = new Reader(text)
  const filter: Draft = {}
  for (let terms = 1; reader.skipBlanks(); terms++) {
    if (terms > FILTER_TERMS_MAX) throw reader.problem(`at most ${FILTER_TERMS_MAX} terms`, reader.rest())
    readTerm(reader, filter)
  }
  return filter as JobFilter
}

type Draft = { -readonly [name in keyof JobFilter]?: readonly unknown[] }

interface Value {
  readonly text: string
  readonly isQuoted: boolean
  /** Counted from 0. */
  readonly at: number
}

function readTerm(reader: Reader, filter: Draft): void {
  const at = reader.at
  const key = reader.readKey()
  const field = FILTER_FIELDS.find((candidate) => candidate.key === key)
  if (field === undefined) throw reader.problem('a key', key, { at, choices: FILTER_KEYS })
  const path = field.shape === 'payload' ? reader.readPath() : []
  reader.expectColon(key)
  const values = reader.readValues()
  const known = filter[field.name]
  if (known !== undefined && field.shape === 'list') {
    throw reader.problem(`${field.key} only once, as ${field.key}:one,other for either`, `${field.key} again`, { at })
  }
  const all = [...(known ?? []), ...read(reader, field, path, values)]
  if (all.length > FILTER_VALUES_MAX) throw reader.problem(`at most ${FILTER_VALUES_MAX} of ${field.key}`, key, { at })
  filter[field.name] = all
}

function read(reader: Reader, field: FilterField, path: readonly string[], values: readonly Value[]): unknown[] {
  const { shape } = field
  if (shape === 'payload') return [readPayload(path, values)]
  if (shape === 'numbers') return [values.map((value) => readNumber(reader, field, value))]
  if (shape === 'times') {
    if (values.length > 1) throw reader.problem('one time for each term', ',', { at: values[1]!.at - 1 })
    return [readTime(reader, field, values[0]!)]
  }
  const texts = values.map(({ text, at }) => {
    if (field.values.isValid(text)) return text
    throw reader.problem(field.values.expected, text, { at, choices: field.values.choices ?? [] })
  })
  return shape === 'terms' ? [texts] : texts
}

function readPayload(path: readonly string[], values: readonly Value[]): PayloadMatch {
  if (values.length === 1 && values[0]!.text === '*' && !values[0]!.isQuoted) return { path, anyOf: null }
  return { path, anyOf: values.map(readScalar) }
}

function readScalar({ text, isQuoted }: Value): JsonScalar {
  if (isQuoted || !readsAsScalar(text) || text === '*') return text
  const value = JSON.parse(text) as JsonScalar
  if (typeof value !== 'number') return value
  // Zero has one sign here, and what is too large for a number is text.
  return Number.isFinite(value) ? value + 0 : text
}

const COMPARED = /^(<=|>=|<|>|=)?(.*)$/s

function readNumber(reader: Reader, field: FilterField, { text, at }: Value): NumberMatch {
  const [, op = '=', digits = ''] = COMPARED.exec(text)!
  if (!WHOLE.test(digits)) throw reader.problem(field.values.expected, text, { at })
  return { op: op as Comparison, value: Number(digits) + 0 }
}

function readTime(reader: Reader, field: FilterField, { text, at }: Value): TimeMatch {
  const [, op = '=', moment = ''] = COMPARED.exec(text)!
  if (op === '=') throw reader.problem(field.values.expected, text, { at })
  try {
    if (/^\d+(\.\d+)?[a-z]/.test(moment)) {
      return { op, ageMs: durationMs(moment, { name: 'an age', maxMs: DURATION_MS_MAX }) } as TimeMatch
    }
    const iso = /^\d{4}-\d{2}-\d{2}$/.test(moment) ? `${moment}T00:00Z` : moment
    return { op, atMs: checkDate('a date', iso).getTime() } as TimeMatch
  } catch {
    throw reader.problem(field.values.expected, text, { at })
  }
}

interface ProblemHints {
  /** Counted from 0. Default where the reader stands. */
  readonly at?: number
  readonly choices?: readonly string[]
  readonly suggestion?: string
}

/** Goes through the text of a filter from left to right. */
class Reader {
  readonly #text: string
  at = 0

  constructor(text: string) {
    this.#text = text
  }

  /** Goes to the next term; false at the end. */
  skipBlanks(): boolean {
    while (this.at < this.#text.length && /\s/.test(this.#text[this.at]!)) this.at++
    return this.at < this.#text.length
  }

  rest(): string {
    return this.#text.slice(this.at)
  }

  /** The key of a term with its `-`; of `payload.a.b` only the first part. */
  readKey(): string {
    const [key] = /^-?[^\s:.",]*/.exec(this.rest())!
    const next = this.#text[this.at + key.length]
    const isKey = next === ':' || (next === '.' && key === 'payload')
    if (!isKey) {
      const word = /^\S*/.exec(this.rest())![0]
      throw this.problem('key:value', word, isId(word) ? { suggestion: `id:${word}` } : { choices: FILTER_KEYS })
    }
    this.at += key.length
    return key
  }

  /** The parts of a path, each behind a dot, quoted where it holds more than plain characters. */
  readPath(): string[] {
    const path: string[] = []
    while (this.#text[this.at] === '.') {
      this.at++
      const at = this.at
      const part = this.#text[at] === '"' ? this.#readQuoted() : this.#take(/^[^\s.:",]*/)
      // A sign would count from the end of an array in some places and not in others.
      if (part === '' || /^[+-]/.test(part)) throw this.problem('a key or an index', part, { at })
      path.push(part)
    }
    if (path.length === 0) throw this.problem('a path, as in payload.user.id:42', this.rest().slice(0, 20))
    return path
  }

  expectColon(key: string): void {
    if (this.#text[this.at] !== ':') throw this.problem(`a colon after ${key}`, this.rest().slice(0, 20))
    this.at++
  }

  readValues(): Value[] {
    const values = [this.#readValue()]
    while (this.#text[this.at] === ',') {
      this.at++
      if (values.length === FILTER_VALUES_MAX) {
        throw this.problem(`at most ${FILTER_VALUES_MAX} values in a term`, this.rest().slice(0, 20))
      }
      values.push(this.#readValue())
    }
    if (this.at < this.#text.length && !/\s/.test(this.#text[this.at]!)) {
      throw this.problem('a blank or a comma after a value', this.rest().slice(0, 20))
    }
    return values
  }

  #readValue(): Value {
    const { at } = this
    if (this.#text[at] === '"') return { text: this.#readQuoted(), isQuoted: true, at }
    const text = this.#take(/^[^\s,"]*/)
    if (text === '') throw this.problem('a value', this.rest().slice(0, 20), { at })
    return { text, isQuoted: false, at }
  }

  #readQuoted(): string {
    const { at } = this
    const found = /^"((?:[^"\\]|\\["\\])*)"/.exec(this.rest())
    if (found === null)
      throw this.problem('a quoted text that ends, with \\" and \\\\ for " and \\', this.rest(), { at })
    this.at += found[0].length
    return found[1]!.replace(/\\(["\\])/g, '$1')
  }

  #take(pattern: RegExp): string {
    const text = pattern.exec(this.rest())?.[0] ?? ''
    this.at += text.length
    return text
  }

  problem(expected: string, got: string, more: ProblemHints = {}): ReturnType<typeof invalidFilter> {
    const { at = this.at, choices = [], suggestion } = more
    return invalidFilter({ position: at + 1, expected, got, choices, suggestion })
  }
}
