// The headings of a table.

import type { ReactNode } from 'react'

/** A heading, and the class that its column has. */
export type Heading = readonly [text: string, className?: string]

/** The cells of a table's first row. */
export function Headings({ of }: { readonly of: readonly Heading[] }): ReactNode {
  return of.map(([text, className]) => (
    <th key={text} scope="col" className={className}>
      {text}
    </th>
  ))
}
