// Names and values, one beside the other.

import { Fragment, type ReactNode } from 'react'

export interface Fact {
  readonly name: string
  readonly value: ReactNode
}

/** One fact; null as its value leaves it out. */
export function fact(name: string, value: ReactNode): Fact {
  return { name, value }
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
