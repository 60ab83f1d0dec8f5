// A filter in SQL: one static condition, and the parameters that make it this filter. core/filter-match.ts defines what each
// part means; values never become part of the text.

import type { JobFilter, NumberMatch, TimeMatch } from '../../core/job-filter.js'
import { arrayOf } from './statement.js'

// PostgreSQL's text holds neither a NUL nor half a character (a surrogate without its other half), and reading any part of a
// JSON value that has one fails. Both are JSON escapes, so each is made another one before the value is read: U+0001, which no
// filter can ask for. Plain replacements, because a regular expression takes seconds for a megabyte of them. Escaped backslashes
// step aside meanwhile as a control character, which JSON text cannot contain: the "\\u0000" of a literal backslash is no NUL.
const REPLACEMENTS: readonly (readonly [string, string])[] = [
  [String.raw`\u0000`, String.raw`\u0001`],
  // JSON.stringify writes lower case; others may not.
  [String.raw`\uD`, String.raw`\ud`],
  ...['A', 'B', 'C', 'D', 'E', 'F'].map((digit) => [`\\ud${digit}`, `\\ud${digit.toLowerCase()}`] as const),
  ...['8', '9', 'a', 'b', 'c', 'd', 'e', 'f'].map((digit) => [`\\ud${digit}`, `\\u0001${digit}`] as const),
]

/** The JSON of a column with everything in it readable. */
export const readable = (column: string): string => {
  const aside = `replace(${column}::text, '\\\\', chr(1))`
  const replaced = REPLACEMENTS.reduce((text, [from, to]) => `replace(${text}, '${from}', '${to}')`, aside)
  return `
       CASE WHEN strpos(${column}::text, '\\u') = 0 THEN ${column}
            ELSE replace(${replaced}, chr(1), '\\\\')::json
        END`
}

/** The error of a job as it is shown: why it died, or why its last attempt failed. */
export const LAST_ERROR = `coalesce(standing.error, (SELECT attempts.error FROM :schema.attempts
                                  WHERE attempts.id = jobs.id ORDER BY attempts.fence DESC LIMIT 1))`

/** Goes between the tables of jobs and standing and the condition below: the error is only read when it is asked for. */
export const FILTER_JOIN: string = `
 CROSS JOIN LATERAL (
   SELECT CASE WHEN $15::text[] IS NOT NULL THEN ${LAST_ERROR} END AS error OFFSET 0
 ) AS last`

/** True for a row of jobs, standing and last that matches the parameters from $2 to $20; payload-search.ts looks at payloads. */
export const FILTER_CONDITION: string = `
       ($2::text[] IS NULL OR standing.state = ANY ($2))
   AND ($3::text[] IS NULL OR standing.state <> ALL ($3))
   AND ($4::text[] IS NULL OR jobs.queue LIKE ANY ($4))
   AND ($5::text[] IS NULL OR NOT jobs.queue LIKE ANY ($5))
   AND ($6::text[] IS NULL OR jobs.type LIKE ANY ($6))
   AND ($7::text[] IS NULL OR NOT jobs.type LIKE ANY ($7))
   AND ($8::text[] IS NULL OR NOT EXISTS (SELECT FROM unnest($8) AS term (tags)
                                           WHERE NOT coalesce(jobs.tags && term.tags::text[], false)))
   AND ($9::text[] IS NULL OR NOT coalesce(jobs.tags && $9, false))
   AND ($10::text[] IS NULL OR standing.reason = ANY ($10))
   AND ($11::text[] IS NULL OR standing.worker LIKE ANY ($11))
   AND ($12::text[] IS NULL OR (${readable('jobs.options')}) #>> '{key,key}' = ANY ($12))
   AND ($13::text[] IS NULL OR (${readable('jobs.options')}) #>> '{schedule,name}' = ANY ($13))
   AND ($14::text[] IS NULL OR (SELECT dead.fingerprint FROM :schema.dead WHERE dead.id = jobs.id) = ANY ($14))
   AND ($15::text[] IS NULL OR NOT EXISTS (
         SELECT FROM unnest($15) AS term (texts)
          WHERE NOT EXISTS (
            SELECT FROM unnest(term.texts::text[]) AS sought (text)
             WHERE strpos(lower(((${readable('last.error')}) ->> 'message') COLLATE "C"), sought.text) > 0
                OR strpos(lower(((${readable('last.error')}) ->> 'name') COLLATE "C"), sought.text) > 0)))
   AND ($16::int4multirange IS NULL OR standing.attempt::integer <@ $16)
   AND ($17::int4multirange IS NULL OR jobs.priority::integer <@ $17)
   AND ($18::tstzrange IS NULL OR date_trunc('milliseconds', jobs.created_at) <@ $18)
   AND ($19::tstzrange IS NULL OR coalesce(date_trunc('milliseconds', standing.finished_at) <@ $19, false))
   AND ($20::text[] IS NULL OR (${readable('jobs.options')}) #>> '{flow,group}' = ANY ($20))`

/** The parameters from $2 to $20. Ages count back from `nowMs`, the store's time. */
export function filterParameters(filter: JobFilter, nowMs: number): unknown[] {
  return [
    listOf(filter.states),
    listOf(filter.notStates),
    patternsOf(filter.queues),
    patternsOf(filter.notQueues),
    patternsOf(filter.types),
    patternsOf(filter.notTypes),
    termsOf(filter.tags),
    listOf(filter.notTags),
    listOf(filter.reasons),
    patternsOf(filter.workers),
    listOf(filter.keys),
    listOf(filter.schedules),
    listOf(filter.fingerprints),
    termsOf(filter.errors?.map((term) => term.map(foldCase))),
    multirangeOf(filter.attempt),
    multirangeOf(filter.priority),
    timeRangeOf(filter.created, nowMs),
    timeRangeOf(filter.finished, nowMs),
    listOf(filter.groups),
  ]
}

function listOf(values: readonly string[] | undefined): string | null {
  return values === undefined ? null : arrayOf(values)
}

function patternsOf(globs: readonly string[] | undefined): string | null {
  return globs === undefined ? null : arrayOf(globs.map(likePattern))
}

function likePattern(glob: string): string {
  return glob.replace(/[\\%_]/g, '\\$&').replaceAll('*', '%')
}

/** Each term as the text of an array. */
function termsOf(terms: readonly (readonly string[])[] | undefined): string | null {
  return terms === undefined ? null : arrayOf(terms.map(arrayOf))
}

function foldCase(text: string): string {
  return text.replace(/[A-Z]/g, (letter) => letter.toLowerCase())
}

/** What matches every term as a multirange: `{[2,2],[5,)}`. */
function multirangeOf(terms: readonly (readonly NumberMatch[])[] | undefined): string | null {
  if (terms === undefined) return null
  let ranges: readonly Range[] = [{ min: Number.NEGATIVE_INFINITY, max: Number.POSITIVE_INFINITY }]
  for (const term of terms) {
    ranges = ranges.flatMap((range) => term.map((match) => intersection(range, rangeOf(match))))
  }
  const parts = ranges.filter(({ min, max }) => min <= max).map(({ min, max }) => `[${bound(min)},${bound(max)}]`)
  return `{${parts.join(',')}}`
}

interface Range {
  readonly min: number
  readonly max: number
}

function rangeOf({ op, value }: NumberMatch): Range {
  return {
    min: op === '>' ? value + 1 : op === '>=' || op === '=' ? value : Number.NEGATIVE_INFINITY,
    max: op === '<' ? value - 1 : op === '<=' || op === '=' ? value : Number.POSITIVE_INFINITY,
  }
}

function intersection(one: Range, other: Range): Range {
  return { min: Math.max(one.min, other.min), max: Math.min(one.max, other.max) }
}

function bound(value: number): string {
  return Number.isFinite(value) ? String(value) : ''
}

/** Whole milliseconds from `fromMs` on and before `toMs`. */
export interface TimeSpan {
  readonly fromMs: number
  readonly toMs: number
}

/** The milliseconds that match every comparison. */
export function spanOf(matches: readonly TimeMatch[], nowMs: number): TimeSpan {
  let span: TimeSpan = { fromMs: Number.NEGATIVE_INFINITY, toMs: Number.POSITIVE_INFINITY }
  for (const match of matches) {
    const atMs = 'atMs' in match ? match.atMs : nowMs - match.ageMs
    // A smaller age means a later time.
    const isAfter = match.op.startsWith('>') === 'atMs' in match
    const isStrict = !match.op.endsWith('=')
    span = isAfter
      ? { ...span, fromMs: Math.max(span.fromMs, isStrict ? atMs + 1 : atMs) }
      : { ...span, toMs: Math.min(span.toMs, isStrict ? atMs : atMs + 1) }
  }
  return span
}

function timeRangeOf(matches: readonly TimeMatch[] | undefined, nowMs: number): string | null {
  if (matches === undefined) return null
  const { fromMs, toMs } = spanOf(matches, nowMs)
  if (fromMs >= toMs) return 'empty'
  return `[${moment(fromMs)},${moment(toMs)})`
}

function moment(ms: number): string {
  return Number.isFinite(ms) ? `"${new Date(ms).toISOString()}"` : ''
}
