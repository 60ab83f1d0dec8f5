// A bulk action: how many jobs it would change, a confirmation, its progress.

import { type ReactNode, useState } from 'react'
import type { BulkAction, JobSummary } from '../../api/types.js'
import { BulkProgress } from './bulk-progress.js'
import { MatchingPlan } from './matching-plan.js'
import { SelectedRun } from './selected-run.js'

/** Jobs picked one by one, or whatever a filter matches. */
export type BulkTarget =
  | { readonly kind: 'selected'; readonly jobs: readonly JobSummary[] }
  | { readonly kind: 'matching'; readonly filter: string }

export function BulkDialog({
  action,
  target,
  onClose,
}: {
  readonly action: BulkAction
  readonly target: BulkTarget
  /** `isDone` when something was started. */
  readonly onClose: (isDone: boolean) => void
}): ReactNode {
  const [startedId, setStartedId] = useState<string | null>(null)
  if (target.kind === 'selected') return <SelectedRun action={action} jobs={target.jobs} onClose={onClose} />
  if (startedId !== null) return <BulkProgress id={startedId} onClose={() => onClose(true)} />
  return <MatchingPlan action={action} filter={target.filter} onStart={setStartedId} onClose={() => onClose(false)} />
}
