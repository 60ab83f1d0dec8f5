// What the handler wrote while it ran.

import { type ReactNode, useState } from 'react'
import type { Job } from '../../api/types.js'
import { useObservable } from '../../observable.js'
import { Button } from '../../parts/button.js'
import { timeMode } from '../../time/clock.js'
import { absoluteText, fullText } from '../../time/format.js'

const LINES_SHOWN = 200

export function Logs({ logs }: { readonly logs: Job['logs'] }): ReactNode {
  const [count, setCount] = useState(LINES_SHOWN)
  const isUtc = useObservable(timeMode) === 'utc'
  const zone = isUtc ? 'UTC' : null
  if (logs.length === 0) return null
  const shown = logs.slice(-count)
  return (
    <section className="surface panel" aria-label="Log">
      <header className="flow panel-head">
        <h2>Log</h2>
        <span className="faint">{logs.length} lines</span>
      </header>
      {logs.length > count ? (
        <Button kind="quiet" onClick={() => setCount(count + LINES_SHOWN)}>
          Show {Math.min(LINES_SHOWN, logs.length - count)} earlier lines
        </Button>
      ) : null}
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard */}
      <ol className="logs" tabIndex={0}>
        {shown.map(({ at, text }, index) => {
          const atMs = Date.parse(at)
          return (
            // biome-ignore lint/suspicious/noArrayIndexKey: lines are only ever added at the end
            <li key={logs.length - shown.length + index}>
              <time dateTime={at} title={fullText(atMs, zone)}>
                {absoluteText(atMs, atMs, zone)}
              </time>
              <span>{text}</span>
            </li>
          )
        })}
      </ol>
    </section>
  )
}
