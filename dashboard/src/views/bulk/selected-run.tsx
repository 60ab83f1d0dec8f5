// A bulk action on selected jobs: at most a page of them, one request each, so that each result is known.

import { type ReactNode, useRef, useState } from 'react'
import { allows } from '../../../../src/core/states.js'
import { change, messageOf } from '../../api/request.js'
import { refreshAll } from '../../api/resource.js'
import type { BulkAction, JobSummary } from '../../api/types.js'
import { ACTION_WORDS, DONE_WORDS } from '../../job-actions.js'
import { segment } from '../../links.js'
import { countOf } from '../../numbers.js'
import { Button } from '../../parts/button.js'
import { Dialog } from '../../parts/dialog.js'
import { Meter } from '../../parts/meter.js'

/** Concurrent requests: enough to be quick, few enough not to load the server. */
const CONCURRENT = 6

interface Progress {
  readonly done: number
  readonly problems: readonly string[]
  readonly isOver: boolean
}

export function SelectedRun({
  action,
  jobs,
  onClose,
}: {
  readonly action: BulkAction
  readonly jobs: readonly JobSummary[]
  readonly onClose: (isDone: boolean) => void
}): ReactNode {
  // The selection may change under the dialog as rows are refreshed; what was confirmed is what is done.
  const [chosen] = useState(() => jobs.filter(({ state }) => allows(state, action)))
  const [skipped] = useState(() => jobs.length - chosen.length)
  const [progress, setProgress] = useState<Progress | null>(null)
  const isStopped = useRef(false)
  const start = async () => {
    setProgress({ done: 0, problems: [], isOver: false })
    await runAll(action, chosen, isStopped, (done, problems) => setProgress({ done, problems, isOver: false }))
    setProgress((last) => last && { ...last, isOver: true })
    refreshAll()
  }
  const close = () => {
    isStopped.current = true
    onClose(progress !== null)
  }
  return (
    <Dialog
      title={`${ACTION_WORDS[action]} ${countOf(chosen.length, 'selected job')}`}
      onClose={close}
      onSubmit={() => void start()}
      actions={
        progress === null ? (
          <>
            <Button kind="quiet" onClick={close}>
              Leave them
            </Button>
            <Button type="submit" kind={action === 'requeue' ? 'primary' : 'danger'} disabled={chosen.length === 0}>
              {ACTION_WORDS[action]} {countOf(chosen.length, 'job')}
            </Button>
          </>
        ) : (
          <Button kind="primary" onClick={close}>
            {progress.isOver ? 'Close' : 'Stop here'}
          </Button>
        )
      }
    >
      {progress === null ? (
        <p>
          {countOf(chosen.length, 'job')} will be {DONE_WORDS[action]}.
          {skipped === 0 ? '' : ` ${countOf(skipped, 'selected job')} cannot be changed in this state.`}
        </p>
      ) : (
        <RunProgress action={action} count={chosen.length} progress={progress} />
      )}
    </Dialog>
  )
}

function RunProgress({
  action,
  count,
  progress: { done, problems, isOver },
}: {
  readonly action: BulkAction
  readonly count: number
  readonly progress: Progress
}): ReactNode {
  return (
    <div className="bulk-figures" role="status">
      <Meter label="Progress" value={done + problems.length} total={count} tone={isOver ? 'done' : 'accent'} />
      <span>
        {countOf(done, 'job')} {DONE_WORDS[action]}
        {problems.length === 0 ? '' : `, ${problems.length} refused`}
      </span>
      {[...new Set(problems)].slice(0, 5).map((problem) => (
        <span key={problem} className="field-problem">
          {problem}
        </span>
      ))}
    </div>
  )
}

async function runAll(
  action: BulkAction,
  jobs: readonly JobSummary[],
  isStopped: { readonly current: boolean },
  onProgress: (done: number, problems: readonly string[]) => void,
): Promise<void> {
  const waiting = [...jobs]
  const problems: string[] = []
  let done = 0
  const lane = async () => {
    for (let job = waiting.shift(); job !== undefined && !isStopped.current; job = waiting.shift()) {
      try {
        const path = `v1/jobs/${segment(job.id)}`
        await (action === 'delete' ? change('DELETE', path) : change('POST', `${path}/${action}`))
        done++
      } catch (error) {
        problems.push(messageOf(error))
      }
      onProgress(done, [...problems])
    }
  }
  await Promise.all(Array.from({ length: CONCURRENT }, lane))
}
