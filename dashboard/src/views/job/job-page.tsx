// One job: its state and why, its history, its payload and its result.

import type { ReactNode } from 'react'
import { Link } from 'wouter'
import { ApiError } from '../../api/request.js'
import { useResource } from '../../api/resource.js'
import type { Job } from '../../api/types.js'
import { segment } from '../../links.js'
import { Empty, Failed, Waiting } from '../../parts/empty.js'
import { Icon } from '../../parts/icons.js'
import { Meter } from '../../parts/meter.js'
import { StateBadge } from '../../parts/state.js'
import { Time } from '../../parts/time.js'
import { Page } from '../../shell/page.js'
import { ExplainBox } from './explain-box.js'
import { FlowPanel } from './flow-panel.js'
import { JobActions } from './job-actions.js'
import { JobFacts } from './job-facts.js'
import { Logs } from './logs.js'
import { Payload } from './payload.js'
import { readProgress } from './progress.js'
import { Steps } from './steps.js'
import { Timeline } from './timeline-view.js'
import { ValuePanel } from './value-panel.js'

export function JobPage({ id }: { readonly id: string }): ReactNode {
  const { value: job, error, refresh } = useResource<Job>(`v1/jobs/${segment(id)}`, { everyMs: 2_000 })
  const back = (
    <Link href="/jobs" className="back" aria-label="All jobs">
      <Icon name="left" />
    </Link>
  )
  if (job === null) {
    return (
      <Page title="Job" before={back}>
        {error === null ? <Waiting rows={10} /> : <NoJob id={id} error={error} onRetry={refresh} />}
      </Page>
    )
  }
  return (
    <Page
      title={job.type}
      before={back}
      beside={
        <StateBadge
          state={job.state}
          note={job.state === 'dead' ? job.reason : job.cancelRequested ? 'cancelling' : null}
        />
      }
      actions={<JobActions job={job} />}
    >
      <div className="job">
        <div className="below job-main">
          <p className="job-brief">
            {job.queue} · attempt {job.attempt} of {job.maxAttempts} · created <Time at={job.createdAt} />
          </p>
          <ExplainBox job={job} />
          <FlowPanel job={job} />
          <JobProgress job={job} />
          <section className="surface panel" aria-label="History">
            <header className="flow panel-head">
              <h2>History</h2>
            </header>
            <Timeline job={job} />
          </section>
          <Payload job={job} />
          {job.state === 'succeeded' || job.result !== null ? (
            <ValuePanel title="Result" value={job.result} redacted={job.redacted} />
          ) : null}
          <Steps job={job} />
          <Logs logs={job.logs} />
        </div>
        <aside className="job-aside" aria-label="Facts">
          <JobFacts job={job} />
        </aside>
      </div>
    </Page>
  )
}

function NoJob({
  id,
  error,
  onRetry,
}: {
  readonly id: string
  readonly error: unknown
  readonly onRetry: () => void
}): ReactNode {
  if (!(error instanceof ApiError) || (error.status !== 404 && error.status !== 400))
    return <Failed error={error} onRetry={onRetry} />
  return (
    <Empty
      icon="search"
      title="There is no such job"
      command={`npx holdfast jobs show ${/^[\w-]+$/.test(id) ? id : '<id>'}`}
    >
      It may have been removed: finished jobs are kept for the retention time.
    </Empty>
  )
}

function JobProgress({ job }: { readonly job: Job }): ReactNode {
  const progress = readProgress(job.progress)
  if (progress === null) return null
  return (
    <section className="surface panel job-progress" aria-label="Progress">
      <header className="flow panel-head">
        <h2>Progress</h2>
        <span className="progress-text">{progress.text}</span>
      </header>
      {progress.share === null ? null : (
        <Meter label="Progress" value={progress.share} total={1} tone={job.state === 'succeeded' ? 'done' : 'accent'} />
      )}
    </section>
  )
}
