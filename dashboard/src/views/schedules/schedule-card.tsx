// One schedule: its expression, described in words, and its next runs.

import { type ReactNode, useState } from 'react'
import { Link, useLocation } from 'wouter'
import { useRights } from '../../api/answers.js'
import { change } from '../../api/request.js'
import type { Enqueued, Schedule } from '../../api/types.js'
import { quote } from '../../filter/terms.js'
import { jobPath, jobsPath, queuePath, segment } from '../../links.js'
import { useAction } from '../../parts/action.js'
import { Button, ExpandButton } from '../../parts/button.js'
import { Time } from '../../parts/time.js'
import { NextRuns } from './next-runs.js'
import { cronWords } from './words.js'

const CATCH_UP = {
  skip: 'Missed runs are skipped',
  latest: 'Only the latest missed run is caught up',
  all: 'All missed runs are caught up',
} as const

export function ScheduleCard({ schedule }: { readonly schedule: Schedule }): ReactNode {
  const [isOpen, setOpen] = useState(false)
  const { name, cron, zone, queue, type, paused, nextAt, lastAt, lastJobId, catchUp, overlap } = schedule
  return (
    <article className="below surface card" data-row tabIndex={-1}>
      <header className="flow card-head">
        <h2>{name}</h2>
        {paused ? <span className="tag tag-warning">paused</span> : null}
        {nextAt === null && !paused ? <span className="tag tag-danger">will not run again</span> : null}
        <span className="card-actions">
          <ScheduleActions schedule={schedule} />
        </span>
      </header>
      <p className="schedule-words">{cronWords(cron) ?? 'This expression cannot be described'}</p>
      <p className="schedule-facts">
        <code>{cron}</code>
        <span>{zone}</span>
        <span>
          <Link href={jobsPath(`schedule:${quote(name)}`)} data-open>
            {type}
          </Link>{' '}
          in <Link href={queuePath(queue)}>{queue}</Link>
        </span>
        <span>next {paused ? <span className="faint">when resumed</span> : <Time at={nextAt} />}</span>
        <span>
          last{' '}
          {lastJobId === null ? (
            <Time at={lastAt} />
          ) : (
            <Link href={jobPath(lastJobId)}>
              <Time at={lastAt} />
            </Link>
          )}
        </span>
        <ExpandButton isOpen={isOpen} onToggle={() => setOpen(!isOpen)}>
          {isOpen ? 'Hide the next runs' : 'Next runs'}
        </ExpandButton>
      </p>
      {isOpen ? (
        <>
          <NextRuns schedule={schedule} />
          <p className="faint">
            {CATCH_UP[catchUp]};{' '}
            {overlap === 'skip' ? 'a run is skipped while the one before is unfinished' : 'runs may overlap'}
          </p>
        </>
      ) : null}
    </article>
  )
}

function ScheduleActions({ schedule: { name, paused } }: { readonly schedule: Schedule }): ReactNode {
  const { operate, enqueue } = useRights()
  const { isBusy, run } = useAction()
  const [, go] = useLocation()
  if (!operate) return null
  const path = (verb: string) => `v1/schedules/${segment(name)}/${verb}`
  const runNow = async () => {
    let id: string | undefined
    const isDone = await run(async () => {
      id = (await change<Enqueued>('POST', path('run'))).id
    }, `${name} has enqueued a job`)
    if (isDone && id !== undefined) go(jobPath(id))
  }
  return (
    <>
      {enqueue ? (
        <Button icon="bolt" isBusy={isBusy} aria-label={`Run now: ${name}`} onClick={() => void runNow()}>
          Run now
        </Button>
      ) : null}
      {paused ? (
        <Button
          icon="play"
          kind="primary"
          isBusy={isBusy}
          aria-label={`Resume ${name}`}
          onClick={() => void run(() => change('POST', path('resume')), `${name} is resumed`)}
        >
          Resume
        </Button>
      ) : (
        <Button
          icon="pause"
          kind="quiet"
          isBusy={isBusy}
          aria-label={`Pause ${name}`}
          onClick={() => void run(() => change('POST', path('pause')), `${name} is paused`)}
        >
          Pause
        </Button>
      )}
    </>
  )
}
