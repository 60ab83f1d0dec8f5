// A structured filter as text: what parseFilter reads back as the same filter.

import { writeDuration } from './duration.js'
import { FILTER_FIELDS, type FilterField, readsAsScalar } from './filter-fields.js'
import type { JobFilter, JsonScalar, NumberMatch, PayloadMatch, TimeMatch } from './job-filter.js'

/** The text of a filter, its terms in a fixed order. */
export function formatFilter(filter: JobFilter): string {
  return FILTER_FIELDS.flatMap((field) => formatField(field, filter)).join(' ')
}

function formatField({ name, key, shape }: FilterField, filter: JobFilter): string[] {
  const value = filter[name]
  if (value === undefined) return []
  switch (shape) {
    case 'list':
    case 'none':
      return [`${key}:${(value as readonly string[]).map(formatText).join(',')}`]
    case 'terms':
      return (value as readonly (readonly string[])[]).map((term) => `${key}:${term.map(formatText).join(',')}`)
    case 'payload':
      return (value as readonly PayloadMatch[]).map(formatPayload)
    case 'numbers':
      return (value as readonly (readonly NumberMatch[])[]).map(
        (term) => `${key}:${term.map((match) => `${match.op === '=' ? '' : match.op}${match.value}`).join(',')}`,
      )
    case 'times':
      return (value as readonly TimeMatch[]).map((match) => `${key}:${match.op}${formatTime(match)}`)
  }
}

const BARE = /^[^\s,"\\]+$/

function formatText(text: string): string {
  return BARE.test(text) ? text : quote(text)
}

function quote(text: string): string {
  return `"${text.replace(/["\\]/g, '\\$&')}"`
}

function formatPayload({ path, anyOf }: PayloadMatch): string {
  const parts = path.map((part) => (/^[^\s.:",\\]+$/.test(part) ? part : quote(part)))
  const values = anyOf === null ? '*' : anyOf.map(formatScalar).join(',')
  return `payload.${parts.join('.')}:${values}`
}

function formatScalar(value: JsonScalar): string {
  if (typeof value !== 'string') return JSON.stringify(value)
  return readsAsScalar(value) ? quote(value) : formatText(value)
}

function formatTime(match: TimeMatch): string {
  if ('ageMs' in match) return String(writeDuration(match.ageMs))
  return new Date(match.atMs).toISOString().replace('.000Z', 'Z').replace('T00:00:00Z', '')
}
