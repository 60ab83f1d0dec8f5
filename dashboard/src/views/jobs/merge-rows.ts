// Puts a refreshed list into the rows on the screen without moving any of them. New rows wait until the user shows them. Rows that
// no longer match stay and are marked. Nothing jumps under the cursor.

/** What makes a row. Ids grow with time, and lists are newest first. */
export interface Row {
  readonly id: string
}

export interface MergedRows<T extends Row> {
  /** The rows in their places, with what is newly known of them. */
  readonly rows: readonly T[]
  /** Ids of rows that the refreshed list no longer has. */
  readonly gone: ReadonlySet<string>
  /** How many rows of the refreshed list are newer than all on the screen. */
  readonly newCount: number
}

/** `isWhole`: the refreshed list is complete, so a row that is missing from it is gone. */
export function mergeRows<T extends Row>(shown: readonly T[], fresh: readonly T[], isWhole: boolean): MergedRows<T> {
  const byId = new Map(fresh.map((row) => [row.id, row]))
  const newest = shown[0]?.id ?? ''
  const oldestFresh = isWhole ? '' : (fresh.at(-1)?.id ?? '\uffff')
  const gone = new Set(shown.filter(({ id }) => id >= oldestFresh && !byId.has(id)).map(({ id }) => id))
  return {
    rows: shown.map((row) => byId.get(row.id) ?? row),
    gone,
    newCount: fresh.filter(({ id }) => id > newest).length,
  }
}

/** The rows followed by older ones; none twice, none beyond `max`. */
export function appendRows<T extends Row>(shown: readonly T[], older: readonly T[], max: number): readonly T[] {
  const known = new Set(shown.map(({ id }) => id))
  return [...shown, ...older.filter(({ id }) => !known.has(id))].slice(0, max)
}

/** The ids between two rows, both included, in either direction: what shift and a click select. */
export function idsBetween(rows: readonly Row[], from: string, to: string): readonly string[] {
  const a = rows.findIndex(({ id }) => id === from)
  const b = rows.findIndex(({ id }) => id === to)
  if (a === -1 || b === -1) return [to]
  return rows.slice(Math.min(a, b), Math.max(a, b) + 1).map(({ id }) => id)
}
