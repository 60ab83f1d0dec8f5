// How many jobs a group gets in one turn.

/** A group that may run this many concurrently gets them in one turn: it is full then, and needs no place among those that wait. */
const TURN_MIN = 4

/** What the length of a turn depends on. */
export interface TurnFacts {
  /** How many jobs the claim still wants. */
  readonly amount: number
  /** How many groups take turns. */
  readonly groups: number
  /** What the group may run concurrently; null for any number. */
  readonly concurrency: number | null
  readonly weight: number
}

/** The length of a turn: an even share of the claim, times the weight. */
export function turnLength({ amount, groups, concurrency, weight }: TurnFacts): number {
  const share = Math.ceil(amount / Math.max(1, groups))
  return weight * Math.max(1, share, Math.min(TURN_MIN, concurrency ?? 1))
}
