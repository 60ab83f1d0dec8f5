// How much of a limit is used: of its concurrency, and of its bucket of tokens.

import type { ReactNode } from 'react'
import type { Limit } from '../../api/types.js'
import { wholeText } from '../../numbers.js'
import { Meter } from '../../parts/meter.js'

/** How many may run now; null for any number. */
export function boundOf({ concurrency, adaptive, level }: Limit): number | null {
  return adaptive === null ? concurrency : (level ?? adaptive.min)
}

export function ConcurrencyMeter({
  limit,
  hasText = true,
}: {
  readonly limit: Limit
  /** False where the numbers stand above it. */
  readonly hasText?: boolean
}): ReactNode {
  const { name, running, adaptive } = limit
  const bound = boundOf(limit)
  if (running === null)
    return <span className="beside meter-line">{bound === null ? '–' : `at most ${wholeText(bound)}`}</span>
  if (bound === null) return <span className="beside meter-line">{wholeText(running)}</span>
  return (
    <span className="beside meter-line">
      <Meter
        label={`Running of ${name}`}
        value={running}
        total={bound}
        tone={running >= bound ? 'warning' : 'accent'}
      />
      {hasText ? (
        <span title={adaptive === null ? undefined : `finds itself between ${adaptive.min} and ${adaptive.max}`}>
          {wholeText(running)} / {adaptive === null ? '' : '~'}
          {wholeText(bound)}
        </span>
      ) : null}
    </span>
  )
}

export function RateMeter({ limit: { name, rate, tokens } }: { readonly limit: Limit }): ReactNode {
  if (rate === null || tokens === null) return null
  return (
    <span className="beside meter-line">
      <Meter label={`Tokens of ${name}`} value={tokens} total={rate.burst} tone={tokens === 0 ? 'warning' : 'accent'} />
      <span>{tokens === 1 ? '1 token' : `${wholeText(tokens)} tokens`}</span>
    </span>
  )
}
