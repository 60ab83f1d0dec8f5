// The fields for how many jobs run and how many start.

import type { ReactNode } from 'react'
import { Field, InputField } from '../../parts/field.js'
import { type BoundsDraft, boundsProblems } from './bounds.js'

interface BoundFieldsProps {
  readonly draft: BoundsDraft
  readonly onChange: (changes: Partial<BoundsDraft>) => void
  /** False where another field says how many run. */
  readonly hasConcurrency?: boolean
  /** What an empty field means. */
  readonly empty?: string
}

export function BoundFields({
  draft,
  onChange,
  hasConcurrency = true,
  empty = 'not bounded',
}: BoundFieldsProps): ReactNode {
  const problems = boundsProblems(draft)
  return (
    <>
      {hasConcurrency ? (
        <InputField
          label="Concurrency"
          hint={`how many run; empty: ${empty}`}
          inputMode="numeric"
          problem={problems.concurrency}
          value={draft.concurrency}
          onText={(concurrency) => onChange({ concurrency })}
        />
      ) : null}
      <InputField
        label="Rate"
        hint={`such as 100/s, 1000/m or 5/30s; empty: ${empty}`}
        problem={problems.rate}
        value={draft.rate}
        onText={(rate) => onChange({ rate })}
      />
      {draft.rate.trim() === '' ? null : (
        <>
          <InputField
            label="Burst"
            hint="how many may start after a rest; empty for as many as the rate"
            inputMode="numeric"
            problem={problems.burst}
            value={draft.burst}
            onText={(burst) => onChange({ burst })}
          />
          <Field label="The rate counts" hint="what a start takes from it">
            {(props) => (
              <select
                {...props}
                value={draft.counts}
                onChange={(event) => onChange({ counts: event.target.value as BoundsDraft['counts'] })}
              >
                <option value="starts">starts</option>
                <option value="cost">the cost of jobs</option>
              </select>
            )}
          </Field>
        </>
      )}
    </>
  )
}
