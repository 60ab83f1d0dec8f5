// How a breaker came to where it stands: each move, newest first, and the last of them as a bar.

import type { ReactNode } from 'react'
import type { Breaker } from '../../api/types.js'
import { wholeText } from '../../numbers.js'
import { Time } from '../../parts/time.js'
import { useNow } from '../../time/clock.js'
import { durationText } from '../../time/format.js'
import { BreakerBadge } from './breaker-badge.js'
import { spansOf } from './breaker-spans.js'
import { positionWord } from './position-words.js'

export function BreakerHistory({ breaker }: { readonly breaker: Breaker }): ReactNode {
  const now = useNow()
  const { history } = breaker
  const spans = spansOf(history, now)
  return (
    <>
      <div className="beside section-head">
        <h2>History of the breaker</h2>
      </div>
      {history.length === 0 ? (
        <p className="faint">It has not moved yet.</p>
      ) : (
        <section className="surface panel" aria-label="History of the breaker">
          <div className="breaker-bar" role="img" aria-label={spans.map(({ words }) => words).join(', ')}>
            {spans.map(({ key, position, share, words }) => (
              <span key={key} data-breaker={position} style={{ flexGrow: share }} title={words} />
            ))}
          </div>
          <ol className="breaker-moves">
            {history.map(({ at, to, from, ok, failed, by }, index) => (
              <li key={`${at} ${to}`} className="flow breaker-move">
                <BreakerBadge breaker={{ position: to, forced: null }} />
                <span className="faint">from {positionWord(from)}</span>
                {ok === null || failed === null || ok + failed === 0 ? null : (
                  <span>
                    {wholeText(failed)} of {wholeText(ok + failed)} failed
                  </span>
                )}
                {by === null ? null : <span>by {by}</span>}
                <span className="breaker-at">
                  <span className="faint">for {durationText(endOf(history, index, now) - Date.parse(at))}</span>
                  <Time at={at} />
                </span>
              </li>
            ))}
          </ol>
        </section>
      )}
    </>
  )
}

/** When the next move ended it. */
function endOf(history: Breaker['history'], index: number, now: number): number {
  return index === 0 ? now : Date.parse(history[index - 1]!.at)
}
