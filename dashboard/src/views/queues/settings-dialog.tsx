// Changing the settings of a queue. Fields left empty fall back to the defaults.

import { type ReactNode, useState } from 'react'
import { useRights } from '../../api/answers.js'
import { change } from '../../api/request.js'
import type { QueueOverview } from '../../api/types.js'
import { segment } from '../../links.js'
import { useAction } from '../../parts/action.js'
import { Button } from '../../parts/button.js'
import { Dialog } from '../../parts/dialog.js'
import { Field, InputField } from '../../parts/field.js'
import { draftOf, problemsOf, type SettingsDraft, settingsOf, type TextField } from './settings-draft.js'

export function SettingsDialog({
  queue,
  onClose,
}: {
  readonly queue: QueueOverview
  readonly onClose: () => void
}): ReactNode {
  const [draft, setDraft] = useState(() => draftOf(queue.settings))
  const { isBusy, run } = useAction()
  const problems = problemsOf(draft)
  const isSound = Object.values(problems).every((problem) => problem === null)
  const save = async () => {
    if (!isSound) return
    const path = `v1/queues/${segment(queue.name)}`
    const work = () => change('PATCH', path, settingsOf(draft, queue.settings))
    if (await run(work, `Settings of ${queue.name} are saved`)) onClose()
  }
  return (
    <Dialog
      title={`Settings of ${queue.name}`}
      onClose={onClose}
      onSubmit={() => void save()}
      actions={
        <>
          <Button kind="quiet" onClick={onClose}>
            Keep as they are
          </Button>
          <Button type="submit" kind="primary" isBusy={isBusy} disabled={!isSound}>
            Save settings
          </Button>
        </>
      }
    >
      <p>They apply to jobs without settings of their own, including those already waiting.</p>
      <SettingsFields draft={draft} onChange={(changes) => setDraft({ ...draft, ...changes })} />
    </Dialog>
  )
}

interface FieldsProps {
  readonly draft: SettingsDraft
  readonly onChange: (changes: Partial<SettingsDraft>) => void
}

function SettingsFields({ draft, onChange }: FieldsProps): ReactNode {
  const { allQueues } = useRights()
  const problems = problemsOf(draft)
  const text = (name: TextField, label: string, hint: string) => (
    <InputField
      label={label}
      hint={hint}
      problem={problems[name]}
      value={draft[name]}
      onText={(value) => onChange({ [name]: value })}
    />
  )
  const hasWaits = draft.backoff !== '' && draft.backoff !== 'list'
  return (
    <div className="fields">
      {text('maxAttempts', 'Attempts', '1 to 10,000; default 25')}
      {text('timeout', 'Timeout of an attempt', 'such as 30s, or none; default 1h')}
      {text('maxAge', 'Maximum age', 'such as 7d, or none; default none')}
      {allQueues ? text('retention', 'Finished jobs kept', 'such as 3d; without it the default of the server') : null}
      <BackoffField draft={draft} onChange={onChange} />
      {hasWaits ? text('retryBase', 'First wait', 'default 1s') : null}
      {hasWaits ? text('retryCap', 'Longest wait', 'default 1h') : null}
      {draft.backoff === '' ? null : (
        <label className="beside check">
          <input
            type="checkbox"
            checked={draft.jitter}
            onChange={(event) => onChange({ jitter: event.target.checked })}
          />
          Full jitter
        </label>
      )}
    </div>
  )
}

function BackoffField({ draft, onChange }: FieldsProps): ReactNode {
  return (
    <Field label="Wait between attempts" hint="how it grows">
      {(props) => (
        <select
          {...props}
          value={draft.backoff}
          onChange={(event) => onChange({ backoff: event.target.value as SettingsDraft['backoff'] })}
        >
          <option value="">default</option>
          {draft.backoff === 'list' ? <option value="list">a list, set in code</option> : null}
          <option value="exponential">exponential</option>
          <option value="linear">linear</option>
          <option value="fixed">fixed</option>
        </select>
      )}
    </Field>
  )
}
