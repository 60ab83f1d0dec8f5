// Narrowing the audit by who, what and which job; kept in the page's address.

import { type FormEvent, type ReactNode, useState } from 'react'
import { useSearchParams } from 'wouter'
import { useParameters } from '../../parameters.js'
import { Button } from '../../parts/button.js'

const FIELDS = [
  { name: 'actor', label: 'Who' },
  { name: 'action', label: 'What' },
  { name: 'job', label: 'Job id' },
] as const

export function AuditFilters(): ReactNode {
  const [, setParameters] = useSearchParams()
  const parameters = useParameters()
  const [draft, setDraft] = useState<Readonly<Record<string, string>>>(() => Object.fromEntries(parameters))
  const isSet = FIELDS.some(({ name }) => parameters.has(name))
  const apply = (next: Readonly<Record<string, string>>) => {
    setDraft(next)
    setParameters(Object.fromEntries(Object.entries(next).filter(([, value]) => value.trim() !== '')))
  }
  const submit = (event: FormEvent) => {
    event.preventDefault()
    apply(draft)
  }
  return (
    <form className="flow toolbar" onSubmit={submit}>
      {FIELDS.map(({ name, label }) => (
        <label key={name} className="inline-field">
          {label}
          <input
            type="text"
            value={draft[name] ?? ''}
            onChange={(event) => setDraft({ ...draft, [name]: event.target.value })}
          />
        </label>
      ))}
      <Button type="submit" icon="search">
        Find
      </Button>
      {isSet ? (
        <Button kind="quiet" onClick={() => apply({})}>
          Show all
        </Button>
      ) : null}
    </form>
  )
}
