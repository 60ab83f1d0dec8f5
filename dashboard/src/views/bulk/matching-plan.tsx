// Before a bulk action on all matching jobs: the server counts them, a person confirms.

import { type ReactNode, useEffect, useState } from 'react'
import { change, messageOf } from '../../api/request.js'
import type { Bulk, BulkAction, BulkBody, DryRun } from '../../api/types.js'
import { ACTION_WORDS, DONE_WORDS } from '../../job-actions.js'
import { countOf, wholeText } from '../../numbers.js'
import { useAction } from '../../parts/action.js'
import { Button } from '../../parts/button.js'
import { Dialog } from '../../parts/dialog.js'
import { InputField } from '../../parts/field.js'
import { Icon } from '../../parts/icons.js'
import { RateField } from './rate-field.js'

/** From this many jobs on, an action that cannot be undone asks for the number to be typed. */
const TYPED_FROM = 1_000

const EFFECTS: Readonly<Record<BulkAction, string>> = {
  requeue: 'Dead jobs among them become ready again, with their attempts counted from zero.',
  cancel: 'Waiting jobs are cancelled; running ones are asked to stop. This cannot be undone.',
  delete:
    'Waiting and finished jobs are removed with their payloads, results, errors and logs; running ones stay. This cannot be undone.',
  discard: 'Dead jobs among them become cancelled and are removed after the retention time. This cannot be undone.',
}

export function MatchingPlan({
  action,
  filter,
  onStart,
  onClose,
}: {
  readonly action: BulkAction
  readonly filter: string
  readonly onStart: (id: string) => void
  readonly onClose: () => void
}): ReactNode {
  const plan = useDryRun(action, filter)
  const [perSecond, setPerSecond] = useState<number | null>(null)
  const [typed, setTyped] = useState('')
  const { isBusy, run } = useAction()
  const count = plan.value?.can ?? 0
  const mustType = action !== 'requeue' && count >= TYPED_FROM
  const isAllowed = plan.value !== null && count > 0 && (!mustType || typed.trim() === String(count))
  const start = async () => {
    if (!isAllowed) return
    await run(async () => {
      // The dialog says that it is every job.
      const all = filter.trim() === '' ? { all: true } : {}
      const body: BulkBody = { action, filter, ...all, perSecond }
      const { id } = await change<Bulk>('POST', 'v1/bulk', body)
      onStart(id)
    }, null)
  }
  return (
    <Dialog
      title={`${ACTION_WORDS[action]} all matching jobs`}
      onClose={onClose}
      onSubmit={() => void start()}
      actions={
        <>
          <Button kind="quiet" onClick={onClose}>
            Leave them
          </Button>
          <Button
            type="submit"
            kind={action === 'requeue' ? 'primary' : 'danger'}
            isBusy={isBusy}
            disabled={!isAllowed}
          >
            {plan.value === null
              ? ACTION_WORDS[action]
              : `${ACTION_WORDS[action]} ${countOf(count, 'job', plan.value.exact)}`}
          </Button>
        </>
      }
    >
      <code className="block">{filter === '' ? 'every job' : filter}</code>
      <PlanCount plan={plan} action={action} />
      <p>{EFFECTS[action]}</p>
      <RateField value={perSecond} onChange={setPerSecond} />
      {mustType ? (
        <InputField
          label={`Type ${count} to continue`}
          hint={`${wholeText(count)} jobs, without the comma`}
          inputMode="numeric"
          autoComplete="off"
          value={typed}
          onText={setTyped}
        />
      ) : null}
    </Dialog>
  )
}

interface Plan {
  readonly value: DryRun | null
  readonly error: string | null
}

function useDryRun(action: BulkAction, filter: string): Plan {
  const [plan, setPlan] = useState<Plan>({ value: null, error: null })
  useEffect(() => {
    let isCurrent = true
    setPlan({ value: null, error: null })
    const body: BulkBody = { action, filter, dryRun: true }
    change<DryRun>('POST', 'v1/bulk', body).then(
      (value) => isCurrent && setPlan({ value, error: null }),
      (error: unknown) => isCurrent && setPlan({ value: null, error: messageOf(error) }),
    )
    return () => {
      isCurrent = false
    }
  }, [action, filter])
  return plan
}

function PlanCount({ plan, action }: { readonly plan: Plan; readonly action: BulkAction }): ReactNode {
  if (plan.error !== null) {
    return (
      <p className="plan plan-failed" role="alert">
        <Icon name="warning" /> {plan.error}
      </p>
    )
  }
  if (plan.value === null) {
    return (
      <p className="plan" role="status">
        <span className="spinner" aria-hidden="true" /> Counting…
      </p>
    )
  }
  const { matches, exact, can } = plan.value
  return (
    <p className="plan" role="status">
      <b>{countOf(matches, 'job', exact)}</b> {matches === 1 ? 'matches' : 'match'}
      {can === matches ? '.' : `; ${countOf(can, 'job', exact)} can be ${DONE_WORDS[action]}.`}
    </p>
  )
}
