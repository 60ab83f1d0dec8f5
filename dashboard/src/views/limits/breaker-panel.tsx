// The breaker of a limit: where it stands, why, and an operator's hand on it.

import { type ReactNode, useState } from 'react'
import { useRights } from '../../api/answers.js'
import { change } from '../../api/request.js'
import type { Breaker, Limit } from '../../api/types.js'
import { segment } from '../../links.js'
import { wholeText } from '../../numbers.js'
import { Button } from '../../parts/button.js'
import { Confirm } from '../../parts/confirm.js'
import { Meter } from '../../parts/meter.js'
import { Time } from '../../parts/time.js'
import { writeDuration } from '../queues/durations.js'
import { BreakerBadge } from './breaker-badge.js'

export function BreakerPanel({ limit }: { readonly limit: Limit }): ReactNode {
  const { name, breaker } = limit
  return (
    <section className="surface panel breaker-panel" aria-label="Breaker" data-breaker={breaker?.position ?? 'none'}>
      <header className="flow panel-head">
        <h2>Breaker</h2>
        {breaker === null ? <span className="faint">none</span> : <BreakerBadge breaker={breaker} />}
        <span className="beside panel-actions">
          <BreakerActions name={name} breaker={breaker} />
        </span>
      </header>
      {breaker === null ? (
        <p className="breaker-words faint">
          Without a breaker, jobs go on calling what is down. Edit the limit to add one.
        </p>
      ) : (
        <BreakerState breaker={breaker} />
      )}
    </section>
  )
}

function BreakerState({ breaker }: { readonly breaker: Breaker }): ReactNode {
  const { settings, ok, failed, opens } = breaker
  return (
    <div className="below breaker-words">
      <p className="breaker-summary">
        <Words breaker={breaker} />
      </p>
      {settings === null ? null : (
        <>
          {ok === null || failed === null || ok + failed === 0 ? null : (
            <span className="beside meter-line">
              <Meter
                label="Failed outcomes"
                value={failed}
                total={ok + failed}
                tone={failed === 0 ? 'done' : 'danger'}
              />
              <span>
                {wholeText(failed)} of {wholeText(ok + failed)} failed
              </span>
            </span>
          )}
          <p className="faint">
            Opens when {Math.round(settings.failures * 100)} % of at least {wholeText(settings.of)} outcomes of{' '}
            {writeDuration(settings.withinMs)} failed. Then nothing starts for {writeDuration(settings.cooldownMs)},
            twice as long each time its probes fail
            {settings.cooldownMaxMs === undefined ? '' : ` up to ${writeDuration(settings.cooldownMaxMs)}`}, and{' '}
            {settings.probes === 1 ? 'one job tries' : `${settings.probes} jobs try`} it out.
            {opens > 1 ? ` It has opened ${opens} times in a row.` : ''}
          </p>
        </>
      )}
    </div>
  )
}

function Words({ breaker }: { readonly breaker: Breaker }): ReactNode {
  const { position, forced, since, probeAt } = breaker
  if (forced === 'open') {
    return (
      <>
        Held open by an operator since <Time at={since} />: jobs that name this limit wait.
      </>
    )
  }
  if (forced === 'closed') {
    return (
      <>
        Held closed by an operator since <Time at={since} />: jobs start, whatever fails.
      </>
    )
  }
  if (position === 'open') {
    return (
      <>
        Open since <Time at={since} />: jobs that name this limit wait, and lose no attempt. Probed{' '}
        <Time at={probeAt} />.
      </>
    )
  }
  if (position === 'half_open') {
    return (
      <>
        Half open since <Time at={since} />: a few jobs try it out, the others wait.
      </>
    )
  }
  return since !== null ? (
    <>
      Closed since <Time at={since} />: jobs start.
    </>
  ) : (
    'Closed: jobs start. It has never opened.'
  )
}

type Verb = 'open' | 'close' | 'release'

const ASKED: Readonly<Record<Verb, { readonly verb: string; readonly text: string; readonly done: string }>> = {
  open: {
    verb: 'Hold it open',
    text: 'No job that names this limit starts until you release the breaker. Those that run go on. No attempt is lost.',
    done: 'is held open',
  },
  close: {
    verb: 'Hold it closed',
    text: 'Jobs that name this limit start, whatever fails, until you release the breaker.',
    done: 'is held closed',
  },
  release: {
    verb: 'Release the breaker',
    text: 'The breaker is closed and judges by outcomes again, from now on.',
    done: 'is left to itself',
  },
}

function BreakerActions({ name, breaker }: { readonly name: string; readonly breaker: Breaker | null }): ReactNode {
  const { operate, allQueues } = useRights()
  const [asked, setAsked] = useState<Verb | null>(null)
  if (!operate || !allQueues) return null
  const { forced = null, position = 'closed' } = breaker ?? {}
  const isReleasable = forced !== null || position !== 'closed'
  return (
    <>
      {forced === 'open' ? null : (
        <Button kind="quiet" icon="pause" onClick={() => setAsked('open')}>
          Force open
        </Button>
      )}
      {forced === 'closed' ? null : (
        <Button kind="quiet" icon="play" onClick={() => setAsked('close')}>
          Force closed
        </Button>
      )}
      {isReleasable ? (
        <Button icon="again" onClick={() => setAsked('release')}>
          Release
        </Button>
      ) : null}
      {asked === null ? null : (
        <Confirm
          title={`${ASKED[asked].verb}?`}
          verb={ASKED[asked].verb}
          isDanger={asked === 'open'}
          work={() => change('POST', `v1/limits/${segment(name)}/${asked}`)}
          done={`The breaker of ${name} ${ASKED[asked].done}`}
          onClose={() => setAsked(null)}
        >
          <p>{ASKED[asked].text}</p>
        </Confirm>
      )}
    </>
  )
}
