// Makes a limit, or changes one.

import { type ReactNode, useState } from 'react'
import { useLocation } from 'wouter'
import { change } from '../../api/request.js'
import type { Limit } from '../../api/types.js'
import { limitPath, segment } from '../../links.js'
import { useAction } from '../../parts/action.js'
import { Button } from '../../parts/button.js'
import { Dialog } from '../../parts/dialog.js'
import { InputField } from '../../parts/field.js'
import { BoundFields } from '../flow/bound-fields.js'
import { bodyOf, draftOf, type LimitDraft, problemsOf } from './limit-draft.js'

export function LimitDialog({
  limit,
  onClose,
}: {
  /** Null for a new one. */
  readonly limit: Limit | null
  readonly onClose: () => void
}): ReactNode {
  const [draft, setDraft] = useState(() => draftOf(limit))
  const { isBusy, run } = useAction()
  const [, go] = useLocation()
  const isSound = Object.values(problemsOf(draft)).every((problem) => problem === null)
  const save = async () => {
    if (!isSound) return
    const name = draft.name
    const isDone = await run(() => change('PUT', `v1/limits/${segment(name)}`, bodyOf(draft)), `${name} is set`)
    if (!isDone) return
    onClose()
    if (limit === null) go(limitPath(name))
  }
  return (
    <Dialog
      title={limit === null ? 'New limit' : `Edit ${limit.name}`}
      onClose={onClose}
      onSubmit={() => void save()}
      isWide
      actions={
        <>
          <Button kind="quiet" onClick={onClose}>
            Keep as it is
          </Button>
          <Button type="submit" kind="primary" isBusy={isBusy} disabled={!isSound}>
            {limit === null ? 'Create limit' : 'Save limit'}
          </Button>
        </>
      }
    >
      <p>
        It holds for every process from the next claim on.{' '}
        {limit?.origin === 'definition' ? 'From then on the definition no longer changes it.' : ''}
      </p>
      <LimitFields draft={draft} isNew={limit === null} onChange={(changes) => setDraft({ ...draft, ...changes })} />
    </Dialog>
  )
}

interface FieldsProps {
  readonly draft: LimitDraft
  readonly isNew: boolean
  readonly onChange: (changes: Partial<LimitDraft>) => void
}

function LimitFields({ draft, isNew, onChange }: FieldsProps): ReactNode {
  const problems = problemsOf(draft)
  const field = (name: 'name' | 'min' | 'max', label: string, hint: string) => (
    <InputField
      label={label}
      hint={hint}
      // An untouched field is no mistake yet.
      problem={draft[name] === '' ? null : (problems[name] ?? null)}
      value={draft[name]}
      onText={(value) => onChange({ [name]: value })}
    />
  )
  return (
    <>
      {isNew ? field('name', 'Name', 'jobs name it, such as stripe') : null}
      <div className="fields">
        {draft.isAdaptive ? (
          <>
            {field('min', 'Smallest concurrency', 'where it starts')}
            {field('max', 'Largest concurrency', 'it grows while calls go well')}
          </>
        ) : null}
        <BoundFields draft={draft} onChange={onChange} hasConcurrency={!draft.isAdaptive} />
      </div>
      <Check
        label="Find the concurrency by itself"
        isOn={draft.isAdaptive}
        onChange={(isAdaptive) => onChange({ isAdaptive })}
      />
      <Check
        label="Breaker: hold jobs back while calls fail"
        isOn={draft.hasBreaker}
        onChange={(hasBreaker) => onChange({ hasBreaker })}
      />
      {draft.hasBreaker ? <BreakerFields draft={draft} onChange={onChange} /> : null}
    </>
  )
}

function Check(props: {
  readonly label: string
  readonly isOn: boolean
  readonly onChange: (isOn: boolean) => void
}): ReactNode {
  return (
    <label className="beside check">
      <input type="checkbox" checked={props.isOn} onChange={(event) => props.onChange(event.target.checked)} />
      {props.label}
    </label>
  )
}

const BREAKER_FIELDS = [
  ['failures', 'Opens at', 'percent of outcomes that failed'],
  ['of', 'Of at least', 'so many outcomes'],
  ['within', 'Within', 'such as 30s'],
  ['cooldown', 'Stays open for', 'twice as long each time probes fail'],
  ['cooldownMax', 'At most for', 'such as 1m; empty for 10m'],
  ['probes', 'Probes', 'jobs that try it out'],
] as const

function BreakerFields({ draft, onChange }: Omit<FieldsProps, 'isNew'>): ReactNode {
  const problems = problemsOf(draft)
  return (
    <div className="fields">
      {BREAKER_FIELDS.map(([name, label, hint]) => (
        <InputField
          key={name}
          label={label}
          hint={hint}
          problem={problems[name] ?? null}
          value={draft[name]}
          onText={(value) => onChange({ [name]: value })}
        />
      ))}
    </div>
  )
}
