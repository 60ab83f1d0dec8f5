// A new job made from this one, with its payload changed if wanted.

import { type ReactNode, useState } from 'react'
import { useLocation } from 'wouter'
import { useRights } from '../../api/answers.js'
import { parseExact } from '../../api/exact-json.js'
import { change, request } from '../../api/request.js'
import type { CloneBody, Enqueued, Job } from '../../api/types.js'
import { jobPath, segment } from '../../links.js'
import { useAction } from '../../parts/action.js'
import { Button } from '../../parts/button.js'
import { Dialog } from '../../parts/dialog.js'
import { Field, InputField } from '../../parts/field.js'
import { payloadPath } from './payload.js'

export function CloneDialog({ job, onClose }: { readonly job: Job; readonly onClose: () => void }): ReactNode {
  const { readPayload } = useRights()
  const { isBusy, run } = useAction()
  const [, go] = useLocation()
  const isMasked = job.redacted.length > 0
  const [original, setOriginal] = useState(() => (isMasked ? null : JSON.stringify(job.payload, null, 2)))
  const [text, setText] = useState(original ?? '')
  const [queue, setQueue] = useState(job.queue)
  const [delay, setDelay] = useState('')
  const problem = original === null ? null : problemOf(text)

  const reveal = async () => {
    const value = await request<unknown>(payloadPath(job.id))
    const written = JSON.stringify(value, null, 2)
    setOriginal(written)
    setText(written)
  }
  const clone = async () => {
    if (problem !== null) return
    const payload = original === null || text === original ? {} : { payload: parseExact(text) }
    const elsewhere = queue.trim() === job.queue ? {} : { queue: queue.trim() }
    const body: CloneBody = { ...payload, ...elsewhere, ...(delay.trim() === '' ? {} : { delay: delay.trim() }) }
    let id: string | null = null
    const isDone = await run(async () => {
      id = (await change<Enqueued>('POST', `v1/jobs/${segment(job.id)}/clone`, body)).id
    }, 'A new job is enqueued')
    if (!isDone || id === null) return
    onClose()
    go(jobPath(id))
  }
  return (
    <Dialog
      title={`Clone this ${job.type}`}
      onClose={onClose}
      onSubmit={() => void clone()}
      isWide
      actions={
        <>
          <Button kind="quiet" onClick={onClose}>
            Close
          </Button>
          <Button type="submit" kind="primary" isBusy={isBusy} disabled={problem !== null}>
            Enqueue the new job
          </Button>
        </>
      }
    >
      {original === null ? (
        <p>
          The payload has masked values. The new job gets the real ones.{' '}
          {readPayload ? (
            <Button icon="eye" onClick={() => void run(reveal, null)}>
              Reveal it to edit (audited)
            </Button>
          ) : null}
        </p>
      ) : (
        <PayloadField text={text} problem={problem} onChange={setText} />
      )}
      <div className="fields">
        <InputField label="Queue" value={queue} onText={setQueue} />
        <InputField
          label="Delay"
          hint="such as 30s or 2h; leave empty to run it immediately"
          value={delay}
          onText={setDelay}
        />
      </div>
    </Dialog>
  )
}

function PayloadField({
  text,
  problem,
  onChange,
}: {
  readonly text: string
  readonly problem: string | null
  readonly onChange: (text: string) => void
}): ReactNode {
  return (
    <Field label="Payload" hint="JSON" problem={problem}>
      {(props) => (
        <textarea
          {...props}
          className="code-area"
          rows={Math.min(18, Math.max(6, text.split('\n').length))}
          spellCheck={false}
          value={text}
          onChange={(event) => onChange(event.target.value)}
        />
      )}
    </Field>
  )
}

function problemOf(text: string): string | null {
  try {
    JSON.parse(text)
    return null
  } catch (error) {
    return error instanceof Error ? error.message : 'this is not JSON'
  }
}
