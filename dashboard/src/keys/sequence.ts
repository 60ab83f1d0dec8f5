// Shortcuts of one key or of two in a row, such as `g` then `j`.

/** How long the second key may take. */
export const SEQUENCE_MS = 1_200

/** What was pressed before and may begin a sequence. */
export interface Pending {
  readonly key: string
  readonly atMs: number
}

export interface Pressed {
  /** The shortcut that is complete, or null. */
  readonly match: string | null
  readonly pending: Pending | null
}

/** What pressing a key does. `known` are all shortcuts; the keys of one are separated by a blank. */
export function press(known: readonly string[], pending: Pending | null, key: string, nowMs: number): Pressed {
  if (pending !== null && nowMs - pending.atMs <= SEQUENCE_MS) {
    const both = `${pending.key} ${key}`
    if (known.includes(both)) return { match: both, pending: null }
  }
  if (known.includes(key)) return { match: key, pending: null }
  const begins = known.some((shortcut) => shortcut.startsWith(`${key} `))
  return { match: null, pending: begins ? { key, atMs: nowMs } : null }
}
