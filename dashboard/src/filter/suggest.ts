// The suggestions of the filter bar: keys first, then the values of the key under the caret.

import { FILTER_KEYS } from './keys.js'
import { quote, type Term, type TermValue, termsOf } from './terms.js'

/** Names the page has seen, to offer as values. */
export interface KnownNames {
  readonly queues: readonly string[]
  readonly types: readonly string[]
  readonly groups: readonly string[]
  readonly tags: readonly string[]
  readonly workers: readonly string[]
  readonly schedules: readonly string[]
}

export interface Suggestion {
  /** The text that replaces what is between `from` and `to`. */
  readonly insert: string
  readonly label: string
  readonly hint: string
}

export interface Suggestions {
  readonly from: number
  readonly to: number
  readonly options: readonly Suggestion[]
}

const OPTIONS_MAX = 12

/** What may come at the caret. */
export function suggest(text: string, caret: number, known: KnownNames): Suggestions {
  const term = termsOf(text).find(({ start, end }) => start <= caret && caret <= end)
  if (term === undefined) return { from: caret, to: caret, options: keyOptions('', false) }
  if (term.key === null || caret <= term.start + term.key.length + (term.negated ? 1 : 0))
    return keysAt(text, term, caret)
  return valuesAt(term, caret, known)
}

function keysAt(text: string, term: Term, caret: number): Suggestions {
  const from = term.start + (term.negated ? 1 : 0)
  const typed = text.slice(from, caret)
  // The text after the caret up to the colon is replaced too.
  const to = term.key === null ? term.end : from + term.key.length + 1
  return { from, to, options: keyOptions(typed, term.negated) }
}

function keyOptions(typed: string, negated: boolean): readonly Suggestion[] {
  const wanted = typed.toLowerCase()
  return FILTER_KEYS.filter(({ key, canNegate }) => key.startsWith(wanted) && (canNegate === true || !negated))
    .map(({ key, meaning, example }) => ({
      insert: key.endsWith('.') ? key : `${key}:`,
      label: key.endsWith('.') ? key : `${key}:`,
      hint: `${meaning} · ${example}`,
    }))
    .slice(0, OPTIONS_MAX)
}

function valuesAt(term: Term, caret: number, known: KnownNames): Suggestions {
  const value = term.values.find(({ start, end }) => start <= caret && caret <= end) ?? term.values.at(-1)!
  const others = term.values.filter((other) => other !== value).map((other) => other.text)
  const typed = typedUpTo(value, caret).toLowerCase()
  const options = namesFor(term.key!, known)
    .filter((name) => !others.includes(name))
    .map((name) => ({ name, rank: rankOf(name.toLowerCase(), typed) }))
    .filter(({ rank }) => rank < 2)
    .sort((a, b) => a.rank - b.rank)
    .slice(0, OPTIONS_MAX)
    .map(({ name }) => ({ insert: quote(name), label: name, hint: '' }))
  return { from: value.start, to: value.end, options }
}

function typedUpTo(value: TermValue, caret: number): string {
  return value.text.slice(0, Math.max(0, caret - value.start))
}

/** Names that begin with what was typed come before those that hold it; the rest is not offered. */
function rankOf(name: string, typed: string): number {
  if (name.startsWith(typed)) return 0
  return name.includes(typed) ? 1 : 2
}

function namesFor(key: string, known: KnownNames): readonly string[] {
  switch (key) {
    case 'queue':
      return known.queues
    case 'type':
      return known.types
    case 'group':
      return known.groups
    case 'tag':
      return known.tags
    case 'worker':
      return known.workers
    case 'schedule':
      return known.schedules
    default:
      return FILTER_KEYS.find((entry) => entry.key === key)?.values ?? []
  }
}

/** The text with a suggestion taken, and where the caret then stands. A value is followed by a blank, a key is not. */
export function take(
  text: string,
  { from, to }: Pick<Suggestions, 'from' | 'to'>,
  { insert }: Suggestion,
): { readonly text: string; readonly caret: number } {
  const isKey = insert.endsWith(':') || insert.endsWith('.')
  const rest = text.slice(to)
  const gap = isKey || /^[\s,]/.test(rest) ? '' : ' '
  const before = `${text.slice(0, from)}${insert}${gap}`
  return { text: `${before}${rest}`, caret: before.length + (!isKey && gap === '' && rest.startsWith(' ') ? 1 : 0) }
}
