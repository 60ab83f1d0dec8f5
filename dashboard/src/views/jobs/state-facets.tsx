// The states as buttons: one press narrows the filter to it, with how many jobs of all are there.

import type { ReactNode } from 'react'
import { useOverview } from '../../api/answers.js'
import type { JobState } from '../../api/types.js'
import { valuesOf, withValues } from '../../filter/terms.js'
import { shortText } from '../../numbers.js'
import { StateShape } from '../../parts/state.js'
import { totalsOf } from '../../totals.js'

const ORDER: readonly JobState[] = [
  'ready',
  'running',
  'retrying',
  'scheduled',
  'blocked',
  'dead',
  'succeeded',
  'cancelled',
]

export function StateFacets({
  filter,
  onApply,
}: {
  readonly filter: string
  readonly onApply: (filter: string) => void
}): ReactNode {
  const overview = useOverview().value
  const totals = overview === null ? null : totalsOf(overview.queues)
  const chosen = valuesOf(filter, 'state')
  const toggle = (state: JobState) => {
    const next = chosen.includes(state) ? chosen.filter((other) => other !== state) : [...chosen, state]
    onApply(withValues(filter, 'state', next))
  }
  return (
    <fieldset className="flow facets">
      <legend className="only-read">States</legend>
      {ORDER.map((state) => {
        const count = totals !== null && state in totals ? totals[state as 'ready'] : null
        return (
          <button
            key={state}
            type="button"
            className="facet"
            data-state={state}
            aria-pressed={chosen.includes(state)}
            onClick={() => toggle(state)}
          >
            <StateShape state={state} />
            {state}
            {count === null ? null : <span className="facet-count">{shortText(count)}</span>}
          </button>
        )
      })}
    </fieldset>
  )
}
