// The fields that limits, queues and groups share: how many run, how many start. Their texts, their mistakes, and the request.

import type { Limit } from '../../api/types.js'
import { type Rate, readRate, writeRate } from './rates.js'

const CONCURRENCY_MAX = 100_000
const RATE_MAX = 1_000_000_000

/** What stands in the fields. An empty one bounds nothing. */
export interface BoundsDraft {
  readonly concurrency: string
  readonly rate: string
  readonly burst: string
  readonly counts: Rate['counts']
}

export type BoundsProblems = Readonly<Record<'concurrency' | 'rate' | 'burst', string | null>>

export function boundsDraft({ concurrency, rate }: Pick<Limit, 'concurrency' | 'rate'>): BoundsDraft {
  return {
    concurrency: concurrency === null ? '' : String(concurrency),
    rate: rate === null ? '' : writeRate(rate),
    burst: rate === null || rate.burst === rate.limit ? '' : String(rate.burst),
    counts: rate?.counts ?? 'starts',
  }
}

/** What is wrong with a whole number, or null. An empty text is none. */
export function wholeProblem(text: string, max: number): string | null {
  const trimmed = text.trim()
  if (trimmed === '') return null
  const value = Number(trimmed)
  return Number.isInteger(value) && value >= 1 && value <= max
    ? null
    : `a whole number from 1 to ${max.toLocaleString('en')}`
}

export function boundsProblems({ concurrency, rate, burst }: BoundsDraft): BoundsProblems {
  return {
    concurrency: wholeProblem(concurrency, CONCURRENCY_MAX),
    rate: rate.trim() === '' || readRate(rate) !== null ? null : 'write a rate such as 100/s, 1000/m or 5/30s',
    burst: burst.trim() !== '' && rate.trim() === '' ? 'a burst needs a rate' : wholeProblem(burst, RATE_MAX),
  }
}

/** The options, null for what is not bounded. The fields have no mistakes. */
export function boundsOf(draft: BoundsDraft): { readonly concurrency: number | null; readonly rate: unknown } {
  const { concurrency, burst, counts } = draft
  const rate = readRate(draft.rate)
  return {
    concurrency: wholeOf(concurrency),
    rate:
      rate === null
        ? null
        : { limit: rate.limit, per: rate.perMs, ...(burst.trim() === '' ? {} : { burst: Number(burst) }), counts },
  }
}

/** The number in a field; null for an empty one. */
export function wholeOf(text: string): number | null {
  return text.trim() === '' ? null : Number(text)
}
