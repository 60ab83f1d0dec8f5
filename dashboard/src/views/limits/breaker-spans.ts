// The stretches of time that a breaker was in each position, oldest first, for a bar.

import type { Breaker } from '../../api/types.js'
import { durationText } from '../../time/format.js'
import { positionWord } from './position-words.js'

export interface BreakerSpan {
  readonly key: string
  readonly position: Breaker['position']
  /** Its part of the bar's width. */
  readonly share: number
  readonly words: string
}

/** The newest moves, up to now. A span's width is the square root of its length, so that a short outage in a long calm is seen. */
export function spansOf(history: Breaker['history'], nowMs: number): readonly BreakerSpan[] {
  return history
    .map(({ at, to }, index) => {
      const untilMs = index === 0 ? nowMs : Date.parse(history[index - 1]!.at)
      const ms = Math.max(0, untilMs - Date.parse(at))
      const words = `${positionWord(to)} for ${durationText(ms)}`
      return { key: `${at} ${to}`, position: to, share: Math.max(1, Math.sqrt(ms)), words }
    })
    .reverse()
}
