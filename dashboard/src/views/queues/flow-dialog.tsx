// Changing the flow control of a queue. Fields left empty bound nothing.

import { type ReactNode, useState } from 'react'
import { change } from '../../api/request.js'
import type { QueueOverview } from '../../api/types.js'
import { segment } from '../../links.js'
import { useAction } from '../../parts/action.js'
import { Button } from '../../parts/button.js'
import { Dialog } from '../../parts/dialog.js'
import { Field, InputField } from '../../parts/field.js'
import { BoundFields } from '../flow/bound-fields.js'
import { type FlowDraft, flowBody, flowDraft, flowProblems } from './flow-draft.js'

export function FlowDialog({
  queue,
  onClose,
}: {
  readonly queue: QueueOverview
  readonly onClose: () => void
}): ReactNode {
  const [draft, setDraft] = useState(() => flowDraft(queue.settings.flow))
  const { isBusy, run } = useAction()
  const problems = flowProblems(draft)
  const edit = (changes: Partial<FlowDraft>) => setDraft({ ...draft, ...changes })
  const save = async () => {
    if (!problems.areNone) return
    const work = () => change('PATCH', `v1/queues/${segment(queue.name)}`, flowBody(draft, queue.settings))
    if (await run(work, `Flow control of ${queue.name} is saved`)) onClose()
  }
  return (
    <Dialog
      title={`Flow control of ${queue.name}`}
      onClose={onClose}
      onSubmit={() => void save()}
      isWide
      actions={
        <>
          <Button kind="quiet" onClick={onClose}>
            Keep as it is
          </Button>
          <Button type="submit" kind="primary" isBusy={isBusy} disabled={!problems.areNone}>
            Save flow control
          </Button>
        </>
      }
    >
      <fieldset className="below part">
        <legend>The whole queue</legend>
        <div className="fields">
          <BoundFields draft={draft.queue} onChange={(changes) => edit({ queue: { ...draft.queue, ...changes } })} />
          <InputField
            label="Most ready jobs"
            hint="one more is refused, or waits; empty for any number"
            inputMode="numeric"
            problem={problems.maxDepth}
            value={draft.maxDepth}
            onText={(maxDepth) => edit({ maxDepth })}
          />
          <Choice
            label="When it is full"
            hint="what an enqueue does"
            value={draft.onFull}
            choices={{ reject: 'is refused', wait: 'waits, up to 30s' }}
            onChange={(onFull) => edit({ onFull })}
          />
          <InputField
            label="Aging"
            hint="one priority more each; empty for never"
            problem={problems.aging}
            value={draft.aging}
            onText={(aging) => edit({ aging })}
          />
        </div>
      </fieldset>
      <GroupFields draft={draft} edit={edit} />
    </Dialog>
  )
}

function GroupFields({
  draft,
  edit,
}: {
  readonly draft: FlowDraft
  readonly edit: (changes: Partial<FlowDraft>) => void
}): ReactNode {
  const problems = flowProblems(draft)
  return (
    <fieldset className="below part">
      <legend>Each of its groups</legend>
      <label className="beside check">
        <input type="checkbox" checked={draft.ordered} onChange={(event) => edit({ ordered: event.target.checked })} />
        Ordered: one job at a time, in the order of their enqueues
      </label>
      <div className="fields">
        <BoundFields
          draft={draft.groups}
          hasConcurrency={!draft.ordered}
          onChange={(changes) => edit({ groups: { ...draft.groups, ...changes } })}
        />
        <InputField
          label="Most ready jobs of a group"
          hint="empty for any number"
          inputMode="numeric"
          problem={problems.groupDepth}
          value={draft.groupDepth}
          onText={(groupDepth) => edit({ groupDepth })}
        />
        {draft.ordered ? (
          <>
            <Choice
              label="While a job retries"
              hint="what the others do"
              value={draft.onRetry}
              choices={{ wait: 'the others wait', pass: 'the others go on' }}
              onChange={(onRetry) => edit({ onRetry })}
            />
            <Choice
              label="When a job dies"
              hint="what the group does"
              value={draft.onDead}
              choices={{ continue: 'the group goes on', stop: 'the group stops' }}
              onChange={(onDead) => edit({ onDead })}
            />
          </>
        ) : null}
      </div>
    </fieldset>
  )
}

function Choice<T extends string>(props: {
  readonly label: string
  readonly hint: string
  readonly value: T
  readonly choices: Readonly<Record<T, string>>
  readonly onChange: (value: T) => void
}): ReactNode {
  return (
    <Field label={props.label} hint={props.hint}>
      {(control) => (
        <select {...control} value={props.value} onChange={(event) => props.onChange(event.target.value as T)}>
          {(Object.entries(props.choices) as [T, string][]).map(([value, text]) => (
            <option key={value} value={value}>
              {text}
            </option>
          ))}
        </select>
      )}
    </Field>
  )
}
