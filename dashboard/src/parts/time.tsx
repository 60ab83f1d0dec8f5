// A time, shown in the chosen way; its title has the full time.

import type { ReactNode } from 'react'
import { useObservable } from '../observable.js'
import { timeMode, useNow } from '../time/clock.js'
import { absoluteText, fullText, relativeText } from '../time/format.js'

/** A time, or a dash for none. */
export function Time({ at }: { readonly at: string | null }): ReactNode {
  const mode = useObservable(timeMode)
  const now = useNow()
  const atMs = at === null ? Number.NaN : Date.parse(at)
  if (Number.isNaN(atMs)) return <span className="faint">–</span>
  const text = mode === 'relative' ? relativeText(atMs, now) : absoluteText(atMs, now, mode === 'utc' ? 'UTC' : null)
  return (
    <time dateTime={new Date(atMs).toISOString()} title={`${fullText(atMs, null)}\n${fullText(atMs, 'UTC')}`}>
      {text}
      {mode === 'utc' ? <span className="faint"> UTC</span> : null}
    </time>
  )
}
