// A labelled field of a form, with a hint and what is wrong with it.

import { type ReactNode, useId } from 'react'

interface ControlProps {
  readonly id: string
  readonly 'aria-describedby': string | undefined
  readonly 'aria-invalid': boolean | undefined
}

export function Field({
  label,
  hint,
  problem = null,
  children,
}: {
  readonly label: string
  readonly hint?: string
  readonly problem?: string | null
  readonly children: (props: ControlProps) => ReactNode
}): ReactNode {
  const id = useId()
  const noteId = `${id}note`
  const note = problem ?? hint
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {children({
        id,
        'aria-describedby': note === undefined ? undefined : noteId,
        'aria-invalid': problem !== null || undefined,
      })}
      {note === undefined ? null : (
        <span id={noteId} className={problem === null ? 'field-hint' : 'field-problem'}>
          {note}
        </span>
      )}
    </div>
  )
}
