// The input and the result of a measure of growth.

import type { Figure } from '../../plot.js'
import type { PostgresServer } from '../../servers/postgres.js'
import type { Column } from '../table.js'

export interface GrowthContext {
  readonly postgres: PostgresServer
  /** Small scale: shows that it works, not how fast it is. */
  readonly isQuick: boolean
  /** How long a snapshot is held, when the command line says. */
  readonly minutes: number | null
}

export type GrowthRow = Readonly<Record<string, string | number | null>>

export interface GrowthResult {
  readonly columns: readonly Column<GrowthRow>[]
  readonly rows: readonly GrowthRow[]
  /** What a reader of the figures should know. */
  readonly notes: readonly string[]
  /** By the name of the file each is written to. */
  readonly figures: Readonly<Record<string, Figure>>
  /** Samples over time, for the document alone. */
  readonly samples?: readonly object[]
}

export interface GrowthMeasure {
  /** Its question, in one line. */
  readonly about: string
  run(context: GrowthContext): Promise<GrowthResult>
}

/** A column that shows a field of the rows. */
export function column(title: string, field: string, digits = 0): Column<GrowthRow> {
  return { title, read: (row) => row[field] ?? null, digits }
}

/** A field of rows over another, as the points of a line; rows without a number there are left out. */
export function pointsOf(rows: readonly GrowthRow[], x: string, y: string): (readonly [number, number])[] {
  return rows.flatMap((row) => {
    const [across, up] = [row[x], row[y]]
    return typeof across === 'number' && typeof up === 'number' ? [[across, up] as const] : []
  })
}

/** Bytes in millions of them. */
export function megabytes(bytes: number | null): number | null {
  return bytes === null ? null : bytes / 1e6
}
