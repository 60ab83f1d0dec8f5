// A bar that shows how much of something is used or done.

import type { ReactNode } from 'react'
import { shareOf } from '../numbers.js'

export function Meter({
  label,
  value,
  total,
  tone = 'accent',
}: {
  readonly label: string
  readonly value: number
  readonly total: number
  readonly tone?: 'accent' | 'warning' | 'danger' | 'done'
}): ReactNode {
  const share = shareOf(value, total)
  return (
    <span
      className="meter"
      data-tone={tone}
      role="progressbar"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={Math.round(share * 100)}
    >
      <span className="meter-fill" style={{ width: `${share * 100}%` }} />
    </span>
  )
}
