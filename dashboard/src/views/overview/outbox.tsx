// Of a store on Redis with an outbox: the jobs of PostgreSQL transactions that have committed and are not sent yet.

import type { ReactNode } from 'react'
import { Link } from 'wouter'
import { useOutbox } from '../../api/answers.js'
import { withQuery } from '../../links.js'
import { countText, wholeText } from '../../numbers.js'
import { durationText } from '../../time/format.js'

/** A row that waits for longer is not just on its way: the server warns then, too. */
const LATE_MS = 30_000
/** The server counts no further. */
const REFUSED_MAX = 1_000

export function OutboxPanel(): ReactNode {
  const outbox = useOutbox()
  if (outbox === null) return null
  const { reachable, waiting, exact, oldestMs, refused, roundTripMs, schema } = outbox
  return (
    <section className="surface outbox" aria-label="Outbox">
      <h2>Outbox</h2>
      {reachable ? (
        <dl>
          <Figure name="Waiting" value={exact ? countText(waiting, true) : `over ${wholeText(waiting)}`} />
          <Figure
            name="Oldest"
            value={waiting === 0 ? 'none waits' : durationText(oldestMs)}
            isAlarm={oldestMs > LATE_MS}
          />
          <Figure
            name="Refused in 7 days"
            value={
              refused === 0 ? (
                'none'
              ) : (
                <Link href={withQuery('/audit', { action: 'outbox_refused' })}>
                  {refused < REFUSED_MAX ? wholeText(refused) : `${wholeText(refused)} or more`}
                </Link>
              )
            }
            isAlarm={refused > 0}
          />
          <Figure name="PostgreSQL" value={`${schema}, answers in ${durationText(roundTripMs)}`} />
        </dl>
      ) : (
        <p className="outbox-away">PostgreSQL cannot be reached: jobs of transactions are not sent.</p>
      )}
    </section>
  )
}

interface FigureProps {
  readonly name: string
  readonly value: ReactNode
  readonly isAlarm?: boolean
}

function Figure({ name, value, isAlarm = false }: FigureProps): ReactNode {
  return (
    <div data-alarm={isAlarm || undefined}>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  )
}
