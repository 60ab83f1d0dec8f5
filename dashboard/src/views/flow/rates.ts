// Rates as people read and type them: '100/s', '1,000 per 30s'.

import type { Limit } from '../../api/types.js'
import { wholeText } from '../../numbers.js'
import { readDuration, writeDuration } from '../queues/durations.js'

export type Rate = NonNullable<Limit['rate']>

/** What a rate allows, in one line. */
export function rateWords({ limit, perMs, burst, counts }: Rate): string {
  const what = counts === 'cost' ? ' cost' : ''
  const per = writeDuration(perMs)
  const every = /^1\D/.test(per) ? `/${per.slice(1)}` : ` per ${per}`
  return `${wholeText(limit)}${what}${every}${burst === limit ? '' : `, burst ${wholeText(burst)}`}`
}

/** A rate as it stands in a field. */
export function writeRate({ limit, perMs }: Pick<Rate, 'limit' | 'perMs'>): string {
  const per = writeDuration(perMs)
  return `${limit}/${/^1\D/.test(per) ? per.slice(1) : per}`
}

/** What was typed, such as 100/s or 5/30s; null when it is no rate. */
export function readRate(text: string): Pick<Rate, 'limit' | 'perMs'> | null {
  const match = /^([\d,]{1,14})\s*\/\s*(\d*(?:\.\d+)?\s*(?:ms|s|m|h|d))$/.exec(text.trim())
  if (match === null) return null
  const limit = Number(match[1]!.replaceAll(',', ''))
  const per = match[2]!
  const perMs = readDuration(/^\d/.test(per) ? per : `1${per}`)
  if (perMs === null || perMs < 1 || !Number.isSafeInteger(limit) || limit < 1) return null
  return { limit, perMs }
}
