// What can be done to a job: the likely one as a button, the others in a menu.

import { type ReactNode, useState } from 'react'
import { useLocation } from 'wouter'
import { allows, isFinished, type JobAction } from '../../../../src/core/states.js'
import { useRights } from '../../api/answers.js'
import { change } from '../../api/request.js'
import type { Job } from '../../api/types.js'
import { segment } from '../../links.js'
import { useAction } from '../../parts/action.js'
import { Button } from '../../parts/button.js'
import { Confirm } from '../../parts/confirm.js'
import { Menu, type MenuEntry } from '../../parts/menu.js'
import { CloneDialog } from './clone-dialog.js'
import { PriorityDialog } from './priority-dialog.js'
import { RescheduleDialog } from './reschedule-dialog.js'

type Open = 'cancel' | 'discard' | 'delete' | 'reschedule' | 'priority' | 'clone'

function pathOf(job: Job, verb: string): string {
  return `v1/jobs/${segment(job.id)}/${verb}`
}

export function JobActions({ job }: { readonly job: Job }): ReactNode {
  const { operate, enqueue, delete: mayDelete } = useRights()
  const { isBusy, run } = useAction()
  const [open, setOpen] = useState<Open | null>(null)
  const post = (verb: string, done: string) => void run(() => change('POST', pathOf(job, verb)), done)
  if (!operate && !enqueue && !mayDelete) return null
  const can = (action: JobAction) => operate && allows(job.state, action)
  const entries: readonly (MenuEntry | null)[] = [
    can('update') ? { label: 'Reschedule…', icon: 'clock', onChoose: () => setOpen('reschedule') } : null,
    can('update') ? { label: 'Change priority…', icon: 'bolt', onChoose: () => setOpen('priority') } : null,
    enqueue ? { label: 'Clone and edit…', icon: 'copy', onChoose: () => setOpen('clone') } : null,
    can('discard') ? { label: 'Discard…', icon: 'trash', isDanger: true, onChoose: () => setOpen('discard') } : null,
    mayDelete && allows(job.state, 'delete')
      ? { label: 'Delete…', icon: 'trash', isDanger: true, onChoose: () => setOpen('delete') }
      : null,
  ]
  const offered = entries.filter((entry): entry is MenuEntry => entry !== null)
  return (
    <>
      {can('requeue') ? (
        <Button kind="primary" icon="again" isBusy={isBusy} onClick={() => post('requeue', 'The job is requeued')}>
          Requeue
        </Button>
      ) : null}
      {can('run') ? (
        <Button
          kind="primary"
          icon="play"
          isBusy={isBusy}
          onClick={() => post('run', 'The job runs as soon as a worker is free')}
        >
          Run now
        </Button>
      ) : null}
      {can('cancel') ? (
        <Button icon="close" disabled={job.cancelRequested} onClick={() => setOpen('cancel')}>
          {job.cancelRequested ? 'Cancel requested' : 'Cancel'}
        </Button>
      ) : null}
      {offered.length === 0 ? null : <Menu label="More actions" entries={offered} />}
      {open === null ? null : <ActionDialog job={job} open={open} onClose={() => setOpen(null)} />}
    </>
  )
}

interface ActionDialogProps {
  readonly job: Job
  readonly open: Open
  readonly onClose: () => void
}

function ActionDialog({ job, open, onClose }: ActionDialogProps): ReactNode {
  switch (open) {
    case 'reschedule':
      return <RescheduleDialog job={job} onClose={onClose} />
    case 'priority':
      return <PriorityDialog job={job} onClose={onClose} />
    case 'clone':
      return <CloneDialog job={job} onClose={onClose} />
    case 'cancel':
      return (
        <Confirm
          title={`Cancel this ${job.type}?`}
          verb="Cancel the job"
          isDanger
          work={() => change('POST', pathOf(job, 'cancel'))}
          done={job.state === 'running' ? 'Its worker is asked to stop it' : 'The job is cancelled'}
          onClose={onClose}
        >
          <p>
            {job.state === 'running'
              ? 'Its worker asks the handler to stop. The job ends as cancelled unless the handler succeeds first.'
              : 'It will not run. Jobs that run after it are cancelled too, unless they were set to run anyway. This cannot be undone.'}
          </p>
        </Confirm>
      )
    case 'discard':
      return (
        <Confirm
          title={`Discard this ${job.type}?`}
          verb="Discard the job"
          isDanger
          work={() => change('POST', pathOf(job, 'discard'))}
          done="The job is discarded"
          onClose={onClose}
        >
          <p>It becomes cancelled and is removed after the retention time. This cannot be undone.</p>
        </Confirm>
      )
    case 'delete':
      return <DeleteDialog job={job} onClose={onClose} />
  }
}

function DeleteDialog({ job, onClose }: Omit<ActionDialogProps, 'open'>): ReactNode {
  const [, go] = useLocation()
  const work = async () => {
    await change('DELETE', `v1/jobs/${segment(job.id)}`)
    go('/jobs')
  }
  return (
    <Confirm
      title={`Delete this ${job.type}?`}
      verb="Delete the job"
      isDanger
      work={work}
      done="The job is deleted"
      onClose={onClose}
    >
      <p>
        {isFinished(job.state)
          ? ''
          : 'It is cancelled first: jobs that run after it are cancelled too, unless they were set to run anyway. '}
        Its payload, result, errors, logs and steps are removed. The audit log keeps its id. This cannot be undone.
      </p>
    </Confirm>
  )
}
