// Names and values, one beside the other.

import { Fragment, type ReactNode } from 'react'
import { CopyButton } from './copy.js'

export interface Fact {
  readonly name: string
  readonly value: ReactNode
}

/** One fact; null as its value leaves it out. */
export function fact(name: string, value: ReactNode): Fact {
  return { name, value }
}

/** The id of something, with a button that copies it. */
export function idFact(id: string): Fact {
  const value = (
    <span className="with-copy">
      <code>{id}</code>
      <CopyButton text={id} label="Copy the id" />
    </span>
  )
  return fact('Id', value)
}

export function Facts({ facts }: { readonly facts: readonly (Fact | null)[] }): ReactNode {
  return (
    <dl className="facts">
      {facts
        .filter((entry): entry is Fact => entry !== null && entry.value !== null)
        .map(({ name, value }) => (
          <Fragment key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </Fragment>
        ))}
    </dl>
  )
}
