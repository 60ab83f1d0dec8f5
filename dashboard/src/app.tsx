// The pages by their addresses, and what is shown instead of them: the sign-in, an outage.

import { type ReactNode, useEffect, useState } from 'react'
import { Link, Route, Router, Switch, useLocation } from 'wouter'
import { useOverview } from './api/answers.js'
import { isSignedIn, outage } from './api/health.js'
import { mountPath } from './api/place.js'
import { readSegment } from './links.js'
import { useObservable } from './observable.js'
import { Announcements } from './parts/announce.js'
import { Empty } from './parts/empty.js'
import { ErrorGuard } from './parts/error-guard.js'
import { Page } from './shell/page.js'
import { Shell } from './shell/shell.js'
import { nowMs, setServerTime } from './time/clock.js'
import { SignInPage } from './views/access/sign-in-page.js'
import { OutageLine, UnreachablePage } from './views/access/unreachable-page.js'
import { AuditPage } from './views/audit/audit-page.js'
import { BulkPage } from './views/bulk/bulk-page.js'
import { DeadPage } from './views/dead/dead-page.js'
import { JobPage } from './views/job/job-page.js'
import { JobsPage } from './views/jobs/jobs-page.js'
import { LimitPage } from './views/limits/limit-page.js'
import { LimitsPage } from './views/limits/limits-page.js'
import { OverviewPage } from './views/overview/overview-page.js'
import { QueuePage } from './views/queues/queue-page.js'
import { QueuesPage } from './views/queues/queues-page.js'
import { SchedulesPage } from './views/schedules/schedules-page.js'
import { WorkersPage } from './views/workers/workers-page.js'

export function App(): ReactNode {
  return (
    <Router base={mountPath}>
      <Gate />
      <Announcements />
    </Router>
  )
}

/** An outage shorter than this leaves the page as it is. */
const OUTAGE_PAGE_AFTER_MS = 6_000

function Gate(): ReactNode {
  const signedIn = useObservable(isSignedIn)
  const current = useObservable(outage)
  const overview = useOverview().value
  const [isLong, setLong] = useState(false)
  const [location] = useLocation()
  const sinceMs = current?.sinceMs ?? null
  useEffect(() => {
    if (overview !== null) setServerTime(overview.now)
  }, [overview])
  useEffect(() => {
    setLong(false)
    if (sinceMs === null) return
    const timer = setTimeout(() => setLong(true), OUTAGE_PAGE_AFTER_MS - (nowMs() - sinceMs))
    return () => clearTimeout(timer)
  }, [sinceMs])

  if (!signedIn) return <SignInPage />
  if (current !== null && (isLong || overview === null)) return <UnreachablePage current={current} />
  return (
    <>
      {current === null ? null : <OutageLine />}
      <Shell>
        {/* A new guard for each address: an error on one page must not hide the others. */}
        <ErrorGuard key={location}>
          <Pages />
        </ErrorGuard>
      </Shell>
    </>
  )
}

function Pages(): ReactNode {
  return (
    <Switch>
      <Route path="/" component={OverviewPage} />
      <Route path="/jobs" component={JobsPage} />
      <Route path="/jobs/:id">{({ id }) => <JobPage key={id} id={readSegment(id)} />}</Route>
      <Route path="/queues" component={QueuesPage} />
      <Route path="/queues/:name">{({ name }) => <QueuePage key={name} name={readSegment(name)} />}</Route>
      <Route path="/limits" component={LimitsPage} />
      <Route path="/limits/:name">{({ name }) => <LimitPage key={name} name={readSegment(name)} />}</Route>
      <Route path="/dead" component={DeadPage} />
      <Route path="/schedules" component={SchedulesPage} />
      <Route path="/workers" component={WorkersPage} />
      <Route path="/bulk" component={BulkPage} />
      <Route path="/audit" component={AuditPage} />
      <Route>
        <Page title="Nothing here">
          <Empty icon="search" title="There is no such page">
            <Link href="/">Go to the overview</Link>
          </Empty>
        </Page>
      </Route>
    </Switch>
  )
}
