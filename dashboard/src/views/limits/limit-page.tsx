// One limit: what it bounds and how much of that is used, its breaker, and who waits for it.

import { type ReactNode, useState } from 'react'
import { Link, useLocation } from 'wouter'
import { useRights } from '../../api/answers.js'
import { ApiError, change } from '../../api/request.js'
import { useResource } from '../../api/resource.js'
import type { LimitDetails } from '../../api/types.js'
import { segment } from '../../links.js'
import { wholeText } from '../../numbers.js'
import { Button } from '../../parts/button.js'
import { Confirm } from '../../parts/confirm.js'
import { Empty, Failed, Waiting } from '../../parts/empty.js'
import { Icon } from '../../parts/icons.js'
import { Time } from '../../parts/time.js'
import { Page } from '../../shell/page.js'
import { rateWords } from '../flow/rates.js'
import { BreakerBadge } from './breaker-badge.js'
import { BreakerHistory } from './breaker-history.js'
import { BreakerPanel } from './breaker-panel.js'
import { LimitDialog } from './limit-dialog.js'
import { boundOf, ConcurrencyMeter, RateMeter } from './limit-meters.js'
import { LimitUsers } from './limit-users.js'

export function LimitPage({ name }: { readonly name: string }): ReactNode {
  const limit = useResource<LimitDetails>(`v1/limits/${segment(name)}`, { everyMs: 2_000 })
  const { value, error, refresh } = limit
  const back = (
    <Link href="/limits" className="back" aria-label="All limits">
      <Icon name="left" />
    </Link>
  )
  const isMissing = error instanceof ApiError && error.status === 404
  if (value === null || isMissing) {
    return (
      <Page title={name} before={back}>
        {error === null ? (
          <Waiting />
        ) : isMissing ? (
          <Empty icon="limits" title="There is no such limit">
            Jobs that name it are refused until somebody sets it.
          </Empty>
        ) : (
          <Failed error={error} onRetry={refresh} />
        )}
      </Page>
    )
  }
  const { breaker } = value
  return (
    <Page
      title={name}
      before={back}
      beside={breaker === null || breaker.position === 'closed' ? null : <BreakerBadge breaker={breaker} />}
      actions={<LimitActions limit={value} />}
    >
      <LimitFigures limit={value} />
      <BreakerPanel limit={value} />
      <LimitUsers users={value.users} />
      {breaker === null ? null : <BreakerHistory breaker={breaker} />}
    </Page>
  )
}

function LimitActions({ limit }: { readonly limit: LimitDetails }): ReactNode {
  const { operate, allQueues } = useRights()
  const [, go] = useLocation()
  const [asked, setAsked] = useState<'edit' | 'remove' | null>(null)
  const close = () => setAsked(null)
  if (!operate || !allQueues) return null
  const remove = async () => {
    await change('DELETE', `v1/limits/${segment(limit.name)}`)
    go('/limits')
  }
  return (
    <>
      <Button icon="edit" onClick={() => setAsked('edit')}>
        Edit
      </Button>
      <Button icon="trash" kind="quiet" onClick={() => setAsked('remove')}>
        Remove
      </Button>
      {asked === 'edit' ? <LimitDialog limit={limit} onClose={close} /> : null}
      {asked === 'remove' ? (
        <Confirm
          title={`Remove ${limit.name}?`}
          verb="Remove the limit"
          isDanger
          work={remove}
          done={`${limit.name} is removed`}
          onClose={close}
        >
          <p>
            It is refused while an unfinished or dead job, or a schedule, names the limit. To let such jobs run freely,
            edit it and leave everything empty.
          </p>
        </Confirm>
      ) : null}
    </>
  )
}

function LimitFigures({ limit }: { readonly limit: LimitDetails }): ReactNode {
  const { adaptive, rate, until, running, origin } = limit
  const bound = boundOf(limit)
  return (
    <div className="surface figures">
      <section className="below figure" aria-label="Concurrency">
        <h2>Running</h2>
        <p className="figure-value">
          {running === null ? '–' : wholeText(running)}
          <span className="figure-of">{bound === null ? ' of any number' : ` of ${wholeText(bound)}`}</span>
        </p>
        {bound === null || running === null ? null : <ConcurrencyMeter limit={limit} hasText={false} />}
        <p className="faint">
          {adaptive === null
            ? 'over all queues and processes'
            : `finds itself between ${wholeText(adaptive.min)} and ${wholeText(adaptive.max)}`}
        </p>
      </section>
      <section className="below figure" aria-label="Rate">
        <h2>Rate</h2>
        <p className="figure-value">{rate === null ? 'any' : rateWords({ ...rate, burst: rate.limit })}</p>
        <RateMeter limit={limit} />
        <p className="faint">{rate === null ? 'starts are not bounded' : `burst ${wholeText(rate.burst)}`}</p>
      </section>
      <section className="below figure" aria-label="Told to wait">
        <h2>Told to wait</h2>
        <p className="figure-value">{until === null ? 'no' : <Time at={until} />}</p>
        <p className="faint">
          {until === null ? 'no handler was told to wait' : 'a handler was told to wait; nothing starts before'}
        </p>
      </section>
      <section className="below figure" aria-label="Origin">
        <h2>Set by</h2>
        <p className="figure-value">{origin === 'definition' ? 'a definition' : 'an operator'}</p>
        <p className="faint">
          {origin === 'definition' ? 'an operator’s value would replace it' : 'definitions do not change it'}
        </p>
      </section>
    </div>
  )
}
