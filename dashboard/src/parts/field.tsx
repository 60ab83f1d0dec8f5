// A labelled field of a form, with a hint and what is wrong with it.

import { type InputHTMLAttributes, type ReactNode, useId } from 'react'

interface ControlProps {
  readonly id: string
  readonly 'aria-describedby': string | undefined
  readonly 'aria-invalid': boolean | undefined
}

interface FieldWords {
  readonly label: string
  readonly hint?: string | undefined
  readonly problem?: string | null
}

interface InputFieldProps extends FieldWords, Omit<InputHTMLAttributes<HTMLInputElement>, 'onChange'> {
  readonly onText: (text: string) => void
}

/** A field to type into: a text, unless `type` names something else. */
export function InputField({ label, hint, problem = null, onText, ...input }: InputFieldProps): ReactNode {
  return (
    <Field label={label} hint={hint} problem={problem}>
      {(props) => <input type="text" {...input} {...props} onChange={(event) => onText(event.target.value)} />}
    </Field>
  )
}

interface FieldProps extends FieldWords {
  readonly children: (props: ControlProps) => ReactNode
}

export function Field({ label, hint, problem = null, children }: FieldProps): ReactNode {
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
