// The state of a breaker as a shape and words.

import type { ReactNode } from 'react'
import type { Breaker } from '../../api/types.js'
import { positionWord } from './position-words.js'

const SHAPES = {
  // A switch that conducts, one that does not, and one that is tried out.
  closed: <path d="M1 7h12" />,
  open: <path d="M1 7h3l5-4.2M10 7h3" />,
  half_open: <path d="M1 7h3l5-2M10 7h3" strokeDasharray="1.6 1.4" />,
} as const

export function BreakerBadge({ breaker }: { readonly breaker: Pick<Breaker, 'position' | 'forced'> }): ReactNode {
  const { position, forced } = breaker
  return (
    <span className="breaker" data-breaker={position}>
      <svg className="breaker-shape" width={18} height={18} viewBox="0 0 14 14" aria-hidden="true" focusable="false">
        {SHAPES[position]}
      </svg>
      {forced === null ? positionWord(position) : `held ${positionWord(position)}`}
    </span>
  )
}
