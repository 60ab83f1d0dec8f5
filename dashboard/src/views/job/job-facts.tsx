// The facts about a job, beside its history.

import type { ReactNode } from 'react'
import { Link } from 'wouter'
import type { Job } from '../../api/types.js'
import { quote } from '../../filter/terms.js'
import { jobPath, jobsPath, limitPath, queuePath } from '../../links.js'
import { type Fact, Facts, fact, idFact } from '../../parts/facts.js'
import { Time } from '../../parts/time.js'
import { durationText } from '../../time/format.js'

export function JobFacts({ job }: { readonly job: Job }): ReactNode {
  const time = (at: string | null) => (at === null ? null : <Time at={at} />)
  const facts: readonly (Fact | null)[] = [
    idFact(job.id),
    fact('Type', <FilterLink filter={`type:${quote(job.type)}`} text={job.type} />),
    fact('Queue', <Link href={queuePath(job.queue)}>{job.queue}</Link>),
    job.flow?.group == null ? null : fact('Group', <GroupLink queue={job.queue} group={job.flow.group} />),
    job.flow === undefined || job.flow.limits.length === 0
      ? null
      : fact('Limits', <LimitTags limits={job.flow.limits} />),
    job.flow === undefined || job.flow.cost === 1 ? null : fact('Cost', String(job.flow.cost)),
    fact('Attempt', `${job.attempt} of ${job.maxAttempts}`),
    job.crashes === 0 ? null : fact('Crashes', String(job.crashes)),
    fact('Priority', String(job.priority)),
    fact('Created', time(job.createdAt)),
    fact('Runs at', time(job.runAt)),
    fact('Started', time(job.startedAt)),
    fact('Finished', time(job.finishedAt)),
    fact('Took', tookOf(job)),
    job.worker === null
      ? null
      : fact('Worker', <FilterLink filter={`worker:${quote(job.worker)}`} text={job.worker} />),
    job.state === 'running' ? fact('Leased until', time(job.leasedUntil)) : null,
    job.tags.length === 0 ? null : fact('Tags', <Tags tags={job.tags} />),
    job.idempotencyKey === null ? null : fact('Idempotency key', <code>{job.idempotencyKey}</code>),
    job.enqueuedBy === undefined
      ? null
      : fact('Enqueued by', <Link href={jobPath(job.enqueuedBy)}>{job.enqueuedBy}</Link>),
    job.schedule === null
      ? null
      : fact('Schedule', <FilterLink filter={`schedule:${quote(job.schedule.name)}`} text={job.schedule.name} />),
    job.after.length === 0 ? null : fact('Runs after', <Parents job={job} />),
    job.version === 1 ? null : fact('Payload version', String(job.version)),
  ]
  return <Facts facts={facts} />
}

function FilterLink({ filter, text }: { readonly filter: string; readonly text: string }): ReactNode {
  return <Link href={jobsPath(filter)}>{text}</Link>
}

function GroupLink({ queue, group }: { readonly queue: string; readonly group: string }): ReactNode {
  return <FilterLink filter={`queue:${quote(queue)} group:${quote(group)}`} text={group} />
}

function LimitTags({ limits }: { readonly limits: readonly string[] }): ReactNode {
  return (
    <span className="tags">
      {limits.map((name) => (
        <Link key={name} href={limitPath(name)} className="tag">
          {name}
        </Link>
      ))}
    </span>
  )
}

function Tags({ tags }: { readonly tags: readonly string[] }): ReactNode {
  return (
    <span className="tags">
      {tags.map((tag) => (
        <Link key={tag} href={jobsPath(`tag:${quote(tag)}`)} className="tag">
          {tag}
        </Link>
      ))}
    </span>
  )
}

const PARENTS_SHOWN = 10

function Parents({ job }: { readonly job: Job }): ReactNode {
  const more = job.after.length - PARENTS_SHOWN
  return (
    <>
      {job.after.slice(0, PARENTS_SHOWN).map((id) => (
        <Link key={id} href={jobPath(id)} className="parent">
          <code>…{id.slice(-8)}</code>
        </Link>
      ))}
      {more > 0 ? ` and ${more} more` : ''}
      <span className="faint">
        {' '}
        ({job.onParentDead === 'cancel' ? 'cancelled if one dies' : 'runs even if one dies'})
      </span>
    </>
  )
}

function tookOf({ startedAt, finishedAt }: Job): string | null {
  if (startedAt === null || finishedAt === null) return null
  return durationText(Date.parse(finishedAt) - Date.parse(startedAt))
}
