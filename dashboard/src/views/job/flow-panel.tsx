// The group of a job with its neighbours, and the limits it counts in.

import type { ReactNode } from 'react'
import { Link } from 'wouter'
import { useResource } from '../../api/resource.js'
import type { Job, JobFlowView } from '../../api/types.js'
import { jobPath, limitPath, queuePath, segment } from '../../links.js'
import { wholeText } from '../../numbers.js'
import { StateShape } from '../../parts/state.js'
import { BreakerBadge } from '../limits/breaker-badge.js'
import { ConcurrencyMeter } from '../limits/limit-meters.js'

const UNFINISHED: readonly Job['state'][] = ['blocked', 'scheduled', 'ready', 'running', 'retrying']

/** Shown while a job under flow control is unfinished. */
export function FlowPanel({ job }: { readonly job: Job }): ReactNode {
  const isWanted = job.flow !== undefined && UNFINISHED.includes(job.state)
  const { value } = useResource<JobFlowView>(isWanted ? `v1/jobs/${segment(job.id)}/flow` : null, { everyMs: 3_000 })
  if (value === null || !isWanted) return null
  const { group, limits } = value
  if (group === null && limits.length === 0) return null
  return (
    <section className="surface panel" aria-label="Flow control">
      {group === null ? null : <GroupPart job={job} group={group} />}
      {limits.length === 0 ? null : <LimitsPart limits={limits} />}
    </section>
  )
}

type Group = NonNullable<JobFlowView['group']>

function GroupPart({ job, group }: { readonly job: Job; readonly group: Group }): ReactNode {
  const { neighbours, running, concurrency, ordered } = group
  const bound = ordered ? ', in order' : concurrency === null ? '' : ` of ${wholeText(concurrency)}`
  return (
    <>
      <header className="flow panel-head">
        <h2>Group {group.name}</h2>
        <span className="faint">
          {wholeText(running)} running{bound}
        </span>
        {group.stoppedBy !== null ? (
          <span className="tag tag-danger">stopped</span>
        ) : group.paused ? (
          <span className="tag tag-warning">paused</span>
        ) : null}
        <Link href={queuePath(job.queue)} className="more-link">
          All groups
        </Link>
      </header>
      <ol className="neighbours" aria-label="The jobs around it in its group">
        {neighbours.running.map((other) => (
          <NeighbourLine key={other.id} job={other} state="running" />
        ))}
        {[...neighbours.before].reverse().map((other) => (
          <NeighbourLine key={other.id} job={other} state="ready" />
        ))}
        <li className="neighbour" aria-current="true">
          <StateShape state={job.state} />
          <span className="neighbour-type">{job.type}</span>
          <span className="faint">this job</span>
        </li>
        {neighbours.after.map((other) => (
          <NeighbourLine key={other.id} job={other} state="ready" />
        ))}
      </ol>
    </>
  )
}

function NeighbourLine({
  job: { id, type },
  state,
}: {
  readonly job: Group['neighbours']['before'][number]
  readonly state: 'running' | 'ready'
}): ReactNode {
  return (
    <li className="neighbour">
      <StateShape state={state} />
      <Link href={jobPath(id)} className="neighbour-type">
        {type}
      </Link>
      <code className="faint">…{id.slice(-8)}</code>
      <span className="faint">{state}</span>
    </li>
  )
}

const QUEUE_PREFIX = 'queue:'

function LimitsPart({ limits }: { readonly limits: JobFlowView['limits'] }): ReactNode {
  return (
    <>
      <header className="flow panel-head">
        <h2>Limits</h2>
      </header>
      <ul className="job-limits">
        {limits.map((limit) => {
          const { name, breaker } = limit
          const isOfQueue = name.startsWith(QUEUE_PREFIX)
          return (
            <li key={name} className="job-limit">
              <Link href={isOfQueue ? queuePath(name.slice(QUEUE_PREFIX.length)) : limitPath(name)}>{name}</Link>
              <ConcurrencyMeter limit={limit} />
              {breaker === null ? null : <BreakerBadge breaker={breaker} />}
            </li>
          )
        })}
      </ul>
    </>
  )
}
