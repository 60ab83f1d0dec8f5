// A list that stays in order.

/** Values in the order of a comparison that finds no two of them equal. A value may only change while it is outside. */
export interface Ordered<T> {
  readonly values: readonly T[]
  add(value: T): void
  remove(value: T): void
}

/** An empty list ordered by `compare`. */
export function ordered<T>(compare: (one: T, other: T) => number): Ordered<T> {
  const values: T[] = []

  const placeOf = (value: T): number => {
    let low = 0
    let high = values.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if (compare(values[middle]!, value) < 0) low = middle + 1
      else high = middle
    }
    return low
  }

  return {
    values,
    add: (value) => void values.splice(placeOf(value), 0, value),
    remove: (value) => void values.splice(placeOf(value), 1),
  }
}

/** Compares texts by their code units, the same everywhere: no locale has a say in the order of ids and names. */
export function compareText(one: string, other: string): number {
  return one < other ? -1 : one > other ? 1 : 0
}
