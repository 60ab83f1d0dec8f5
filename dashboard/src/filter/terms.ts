// Splits a filter's text into terms with their positions. It accepts half-typed text; the server's parser decides what is valid.

/** One term, such as `-queue:mail,"two words"`. */
export interface Term {
  /** Where it begins and ends in the text. */
  readonly start: number
  readonly end: number
  readonly negated: boolean
  /** What stands before the first colon, or null while there is none. */
  readonly key: string | null
  readonly values: readonly TermValue[]
}

/** One value of a term, quotes removed, with where it stands in the text, quotes included. */
export interface TermValue {
  readonly text: string
  readonly start: number
  readonly end: number
}

/** The terms of a text in order. */
export function termsOf(text: string): readonly Term[] {
  return split(text, 0, text.length, isBlank)
    .filter(([start, end]) => end > start)
    .map(([start, end]) => readTerm(text, start, end))
}

/** Where the parts between two places begin and end. A separator inside quotes is no separator. */
function split(text: string, start: number, end: number, isSeparator: (unit: string) => boolean): [number, number][] {
  const parts: [number, number][] = []
  let isQuoted = false
  let partStart = start
  for (let at = start; at < end; at++) {
    const unit = text[at]!
    if (isQuoted && unit === '\\') at++
    else if (unit === '"') isQuoted = !isQuoted
    else if (!isQuoted && isSeparator(unit)) {
      parts.push([partStart, at])
      partStart = at + 1
    }
  }
  return [...parts, [partStart, end]]
}

function readTerm(text: string, start: number, end: number): Term {
  const negated = text[start] === '-'
  const keyStart = negated ? start + 1 : start
  const colon = text.indexOf(':', keyStart)
  if (colon === -1 || colon >= end) return { start, end, negated, key: null, values: [valueAt(text, keyStart, end)] }
  return { start, end, negated, key: text.slice(keyStart, colon), values: readValues(text, colon + 1, end) }
}

function readValues(text: string, start: number, end: number): readonly TermValue[] {
  return split(text, start, end, (unit) => unit === ',').map(([from, to]) => valueAt(text, from, to))
}

function valueAt(text: string, start: number, end: number): TermValue {
  return { text: unquote(text.slice(start, end)), start, end }
}

function unquote(text: string): string {
  if (!text.startsWith('"')) return text
  const inner = text.length > 1 && text.endsWith('"') ? text.slice(1, -1) : text.slice(1)
  return inner.replace(/\\(["\\])/g, '$1')
}

/** A value as it is written in a filter: in quotes when it must be. */
export function quote(value: string): string {
  return /[\s",\\]/.test(value) || value === '' ? `"${value.replace(/(["\\])/g, '\\$1')}"` : value
}

/** The values of a key that is not negated, over all its terms. */
export function valuesOf(text: string, key: string): readonly string[] {
  return termsOf(text)
    .filter((term) => term.key === key && !term.negated)
    .flatMap((term) => term.values.map((value) => value.text))
}

/** The text with the terms of this key replaced by these values; no values takes the key out. */
export function withValues(text: string, key: string, values: readonly string[]): string {
  const terms = termsOf(text)
  const written = values.length === 0 ? null : `${key}:${values.map(quote).join(',')}`
  const first = terms.findIndex((term) => term.key === key && !term.negated)
  const kept = terms.map((term, index) => {
    if (term.key !== key || term.negated) return text.slice(term.start, term.end)
    return index === first ? written : null
  })
  if (first === -1) kept.unshift(written)
  return kept.filter((term) => term !== null).join(' ')
}

function isBlank(unit: string): boolean {
  return unit === ' ' || unit === '\t' || unit === '\n' || unit === '\r'
}
