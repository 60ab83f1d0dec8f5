// The word that somebody who mistyped one most likely meant.

/** The choice that comes closest to a word, at most a third of its letters away; null when none does. */
export function closest(got: string, choices: readonly string[]): string | null {
  const typed = got.toLowerCase()
  const ranked = choices
    .map((choice) => ({ choice, distance: distance(typed, choice) }))
    .filter((candidate) => candidate.distance <= Math.max(1, Math.floor(candidate.choice.length / 3)))
    .sort((one, other) => one.distance - other.distance)
  return ranked[0]?.choice ?? null
}

/** How many letters must change, come, go or trade places with their neighbour to make one word the other. */
function distance(one: string, other: string): number {
  if (Math.abs(one.length - other.length) > 3) return Number.POSITIVE_INFINITY
  let before: number[] = []
  let row = Array.from({ length: other.length + 1 }, (_, index) => index)
  for (let left = 1; left <= one.length; left++) {
    const next = [left]
    for (let right = 1; right <= other.length; right++) {
      const change = row[right - 1]! + (one[left - 1] === other[right - 1] ? 0 : 1)
      const isSwapped =
        left > 1 && right > 1 && one[left - 1] === other[right - 2] && one[left - 2] === other[right - 1]
      const swap = isSwapped ? before[right - 2]! + 1 : Number.POSITIVE_INFINITY
      next.push(Math.min(change, swap, row[right]! + 1, next[right - 1]! + 1))
    }
    before = row
    row = next
  }
  return row[other.length]!
}
