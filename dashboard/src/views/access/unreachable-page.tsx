// Shown when the server or its store does not answer: what is wrong, what to check, and when it tries again.

import { type ReactNode, useEffect, useState } from 'react'
import { type Outage, outage } from '../../api/health.js'
import { apiUrl } from '../../api/place.js'
import { refreshAll } from '../../api/resource.js'
import { useObservable } from '../../observable.js'
import { Button } from '../../parts/button.js'
import { Command } from '../../parts/copy.js'
import { Icon } from '../../parts/icons.js'
import { durationText } from '../../time/format.js'

/** The wait before each try; the last repeats. */
const WAITS_S = [1, 2, 3, 5, 8, 10] as const

/** Checks whether the store answers again, and then restores the page. */
function useRecovery(): { readonly leftS: number; tryNow(): void } {
  const current = useObservable(outage)
  const isOut = current !== null
  const [tries, setTries] = useState(0)
  const [leftS, setLeftS] = useState<number>(WAITS_S[0])
  useEffect(() => {
    if (!isOut) return setTries(0)
    const timer = setInterval(() => setLeftS((left) => left - 1), 1_000)
    return () => clearInterval(timer)
  }, [isOut])
  useEffect(() => {
    if (!isOut || leftS > 0) return
    setTries((count) => count + 1)
    setLeftS(WAITS_S[Math.min(tries + 1, WAITS_S.length - 1)]!)
    void probe()
  }, [isOut, leftS, tries])
  return { leftS: Math.max(0, leftS), tryNow: () => setLeftS(0) }
}

async function probe(): Promise<void> {
  try {
    const response = await fetch(apiUrl('readyz'), { cache: 'no-store', signal: AbortSignal.timeout(8_000) })
    if (!response.ok) return
    outage.set(null)
    refreshAll()
  } catch {
    // Still down; it tries again.
  }
}

const ADVICE: Readonly<
  Record<Outage['who'], { title: string; text: string; checks: readonly string[]; command: string }>
> = {
  store: {
    title: 'The store does not answer',
    text: 'The server is running, but its database does not answer. Workers keep their jobs and continue when it is back. Nothing is lost.',
    checks: [
      'Is the database up, and does it take connections?',
      'Was its address or its password changed?',
      'Is its disk full, or has it become read-only?',
    ],
    command: 'npx holdfast doctor',
  },
  server: {
    title: 'The server does not answer',
    text: 'This page cannot reach the Holdfast server. Workers do not need it: jobs keep running.',
    checks: [
      'Is its process running?',
      'Is a proxy in between, and does it reach the server?',
      'Was it moved to another address or port?',
    ],
    command: 'npx holdfast server',
  },
}

export function UnreachablePage({ current }: { readonly current: Outage }): ReactNode {
  const { leftS, tryNow } = useRecovery()
  const advice = ADVICE[current.who]
  return (
    <main className="gate">
      <section className="below gate-card gate-wide" aria-labelledby="unreachable-title">
        <span className="gate-icon">
          <Icon name="server" size={24} />
        </span>
        <h1 id="unreachable-title">{advice.title}</h1>
        <p>{advice.text}</p>
        <p className="gate-said">
          {current.text}
          {current.code === null ? null : <span className="tag">{current.code}</span>}
        </p>
        <ul className="gate-checks">
          {advice.checks.map((check) => (
            <li key={check}>{check}</li>
          ))}
        </ul>
        <Command text={advice.command} />
        <div className="flow gate-foot">
          <span className="spinner" aria-hidden="true" />
          <span role="status">
            Down for {durationText(Date.now() - current.sinceMs)}. Next try in {leftS} s. This page recovers by itself.
          </span>
          <Button onClick={tryNow}>Try now</Button>
        </div>
      </section>
    </main>
  )
}

/** For an outage that has just begun: the page stays, with a line on top. */
export function OutageLine(): ReactNode {
  const { leftS } = useRecovery()
  return (
    <div className="beside outage-line" role="status">
      <span className="spinner" aria-hidden="true" />
      Reconnecting in {leftS} s. What you see may be old.
    </div>
  )
}
