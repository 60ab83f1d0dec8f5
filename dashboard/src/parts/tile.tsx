// One number with its name, and a link to what it counts.

import type { ReactNode } from 'react'
import { Link } from 'wouter'
import type { JobState } from '../api/types.js'
import { StateShape } from './state.js'

interface TileProps {
  readonly label: string
  readonly value: string
  readonly unit?: string
  readonly href: string
  readonly state: JobState
  readonly isAlarm?: boolean
  readonly children: ReactNode
}

export function Tile({ label, value, unit = '', href, state, isAlarm = false, children }: TileProps): ReactNode {
  return (
    <Link href={href} className="tile" data-alarm={isAlarm || undefined}>
      <span className="beside tile-label">
        <StateShape state={state} />
        {label}
      </span>
      <span className="cut tile-value">
        {value}
        {unit === '' ? null : <span className="tile-unit">{unit}</span>}
      </span>
      <span className="tile-note">{children}</span>
    </Link>
  )
}
