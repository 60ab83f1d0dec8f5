// Another time for a job that waits.

import { type ReactNode, useState } from 'react'
import { change } from '../../api/request.js'
import type { ChangesBody, Job } from '../../api/types.js'
import { segment } from '../../links.js'
import { useAction } from '../../parts/action.js'
import { Button } from '../../parts/button.js'
import { Dialog } from '../../parts/dialog.js'
import { Field } from '../../parts/field.js'
import { fullText } from '../../time/format.js'

const DELAYS = [
  ['in 5 minutes', '5m'],
  ['in an hour', '1h'],
  ['in 6 hours', '6h'],
  ['in a day', '1d'],
] as const

export function RescheduleDialog({ job, onClose }: { readonly job: Job; readonly onClose: () => void }): ReactNode {
  const { isBusy, run } = useAction()
  const [at, setAt] = useState('')
  const atMs = at === '' ? Number.NaN : new Date(at).getTime()
  const send = async (body: ChangesBody) => {
    if (await run(() => change('PATCH', `v1/jobs/${segment(job.id)}`, body), 'The job is rescheduled')) onClose()
  }
  return (
    <Dialog
      title="Reschedule the job"
      onClose={onClose}
      onSubmit={() => {
        if (!Number.isNaN(atMs)) void send({ runAt: new Date(atMs).toISOString() })
      }}
      actions={
        <>
          <Button kind="quiet" onClick={onClose}>
            Keep its time
          </Button>
          <Button type="submit" kind="primary" isBusy={isBusy} disabled={Number.isNaN(atMs)}>
            Reschedule
          </Button>
        </>
      }
    >
      <div className="choices">
        {DELAYS.map(([text, delay]) => (
          <Button key={delay} isBusy={isBusy} onClick={() => void send({ delay })}>
            {text}
          </Button>
        ))}
      </div>
      <Field label="Or at a time" hint={Number.isNaN(atMs) ? 'In your time zone' : fullText(atMs, 'UTC')}>
        {(props) => (
          <input {...props} type="datetime-local" step={1} value={at} onChange={(event) => setAt(event.target.value)} />
        )}
      </Field>
    </Dialog>
  )
}
