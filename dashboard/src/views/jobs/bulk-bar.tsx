// What can be done to the selected jobs, or to all that match the filter.

import { type ReactNode, useState } from 'react'
import { allows, JOB_STATES } from '../../../../src/core/states.js'
import { useRights } from '../../api/answers.js'
import type { BulkAction, Count, JobState, JobSummary } from '../../api/types.js'
import { valuesOf } from '../../filter/terms.js'
import { ACTION_WORDS } from '../../job-actions.js'
import { countText, wholeText } from '../../numbers.js'
import { Button, IconButton } from '../../parts/button.js'
import { BulkDialog, type BulkTarget } from '../bulk/bulk-dialog.js'

const ACTIONS: readonly BulkAction[] = ['requeue', 'cancel', 'discard', 'delete']

export function BulkBar({
  filter,
  jobs,
  count,
  onClear,
}: {
  readonly filter: string
  readonly jobs: readonly JobSummary[]
  readonly count: Count | null
  readonly onClear: () => void
}): ReactNode {
  const rights = useRights()
  const may = (action: BulkAction) => action !== 'delete' || rights.delete
  const [isAll, setAll] = useState(false)
  const [asked, setAsked] = useState<{ readonly action: BulkAction; readonly target: BulkTarget } | null>(null)
  const more = count !== null && count.count > jobs.length
  const target: BulkTarget = isAll && more ? { kind: 'matching', filter } : { kind: 'selected', jobs }
  // All that match may be in any state, unless the filter names some.
  const named = valuesOf(filter, 'state') as readonly JobState[]
  const states = target.kind === 'selected' ? jobs.map(({ state }) => state) : named.length > 0 ? named : JOB_STATES
  const close = (isDone: boolean) => {
    setAsked(null)
    if (isDone) {
      setAll(false)
      onClear()
    }
  }
  return (
    <>
      {jobs.length === 0 ? null : (
        <section className="flow bulk-bar" aria-label="Selected jobs">
          <span className="bulk-count">
            {target.kind === 'matching' && count !== null
              ? `All ${countText(count.count, count.exact)} matching`
              : `${wholeText(jobs.length)} selected`}
          </span>
          {more && filter !== '' ? (
            <button type="button" className="text-button" onClick={() => setAll(!isAll)}>
              {isAll ? 'Only the selected' : `All ${countText(count.count, count.exact)} matching`}
            </button>
          ) : null}
          <span className="bulk-actions">
            {ACTIONS.filter((action) => may(action) && states.some((state) => allows(state, action))).map((action) => (
              <Button
                key={action}
                kind={action === 'requeue' ? 'primary' : 'plain'}
                onClick={() => setAsked({ action, target })}
              >
                {ACTION_WORDS[action]}
              </Button>
            ))}
          </span>
          <IconButton icon="close" label="Clear the selection" onClick={onClear} />
        </section>
      )}
      {asked === null ? null : <BulkDialog {...asked} onClose={close} />}
    </>
  )
}
