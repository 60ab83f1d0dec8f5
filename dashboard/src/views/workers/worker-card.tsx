// One worker: its heartbeat, its slots, the jobs it runs.

import { type ReactNode, useState } from 'react'
import { Link } from 'wouter'
import type { Worker } from '../../api/types.js'
import { jobPath, queuePath } from '../../links.js'
import { countOf } from '../../numbers.js'
import { ExpandButton } from '../../parts/button.js'
import { Meter } from '../../parts/meter.js'
import { Time } from '../../parts/time.js'
import { durationText } from '../../time/format.js'

const LATE_MS = 15_000
const QUEUES_SHOWN = 6
/** Up to this many jobs are shown without a click. */
const JOBS_SHOWN = 5

export function WorkerCard({ worker }: { readonly worker: Worker }): ReactNode {
  const [chosen, setChosen] = useState<boolean | null>(null)
  const { id, host, pid, version, queues, concurrency, running, draining, heartbeatAgeMs, live, startedAt, jobs } =
    worker
  const { children } = worker
  const beat = !live ? 'gone' : heartbeatAgeMs > LATE_MS ? 'late' : 'live'
  const more = queues.length - QUEUES_SHOWN
  const isOpen = chosen ?? jobs.length <= JOBS_SHOWN
  return (
    <article className="below surface card worker" data-row tabIndex={-1} data-beat={beat}>
      <header className="flow card-head">
        <span className="dot beat" data-beat={beat} aria-hidden="true" />
        <h2 title={id}>{id}</h2>
        {draining ? <span className="tag tag-warning">draining</span> : null}
        {beat === 'gone' ? <span className="tag tag-danger">gone</span> : null}
        {beat === 'late' ? <span className="tag tag-warning">late</span> : null}
      </header>
      <div className="beside worker-slots">
        <Meter
          label={`Slots of ${id}`}
          value={running}
          total={concurrency}
          tone={running >= concurrency ? 'warning' : 'accent'}
        />
        <span>
          {running}/{concurrency}
        </span>
      </div>
      <p className="worker-facts">
        <span>heartbeat {durationText(heartbeatAgeMs)} ago</span>
        <span>
          {host} · pid {pid}
        </span>
        {children === null ? null : (
          <span>
            {children.running} {children.running === 1 ? 'child' : 'children'}
            {children.restarts === 0 ? '' : `, ${countOf(children.restarts, 'restart')}`}
          </span>
        )}
        <span>{version}</span>
        <span>
          up since <Time at={startedAt} />
        </span>
      </p>
      <p className="flow worker-queues">
        {queues.slice(0, QUEUES_SHOWN).map((queue) => (
          <Link key={queue} href={queuePath(queue)} className="tag">
            {queue}
          </Link>
        ))}
        {more > 0 ? <span className="faint">and {more} more</span> : null}
      </p>
      {jobs.length === 0 ? null : (
        <>
          <ExpandButton isOpen={isOpen} onToggle={() => setChosen(!isOpen)}>
            {isOpen ? 'Hide jobs' : `Show ${countOf(jobs.length, 'job')}`}
          </ExpandButton>
          {isOpen ? <CurrentJobs jobs={jobs} running={running} /> : null}
        </>
      )}
    </article>
  )
}

function CurrentJobs({ jobs, running }: { readonly jobs: Worker['jobs']; readonly running: number }): ReactNode {
  return (
    <>
      <ul className="current-jobs">
        {jobs.map(({ id, type, startedAt }) => (
          <li key={id}>
            <Link href={jobPath(id)}>{type}</Link>
            <code className="faint">…{id.slice(-8)}</code>
            <Time at={startedAt} />
          </li>
        ))}
      </ul>
      {running > jobs.length ? <p className="faint">and {running - jobs.length} more</p> : null}
    </>
  )
}
