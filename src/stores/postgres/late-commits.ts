// Above which positions jobs may have been committed late. A statement draws its position and its transaction's number at the same
// time. So a transaction that has no number yet will not write a position that was claimed long ago. Each mark records the server's next
// transaction number and the positions claimed by then. When transactions have ended since the last mark, their jobs lie above the
// positions of the newest mark that is older than the oldest of these transactions.

/** How many marks are kept. A transaction that stays open for long makes older marks sparser, never wrong. */
const MARKS_MAX = 64

interface Mark<Key> {
  /** The server's next transaction number at that moment. */
  readonly next: bigint
  readonly places: ReadonlyMap<Key, bigint>
}

/** Follows which transactions end. */
export class LateCommits<Key> {
  #marks: Mark<Key>[] = []
  #open: readonly bigint[] = []

  /**
   * Takes the server's snapshot (`xmin:xmax:xip,…`) and the positions claimed before it. Returns the positions above which all jobs lie
   * that were committed since the last call, or null when they may be anywhere.
   */
  step(snapshot: string, places: ReadonlyMap<Key, bigint>): ReadonlyMap<Key, bigint> | null {
    const { next, open } = readSnapshot(snapshot)
    const last = this.#marks.at(-1)
    // Numbers that go back are another server's, which has lost commits.
    if (last === undefined || next < last.next) {
      this.#marks = [{ next, places }]
      this.#open = open
      return null
    }
    const isOpen = new Set(open)
    const oldestEnded = lowest(
      this.#open.filter((number) => !isOpen.has(number)),
      last.next,
    )
    const from = this.#markBefore(oldestEnded)
    this.#marks.push({ next, places })
    this.#open = open
    this.#forget(lowest(open, next))
    return from?.places ?? null
  }

  // One more mark back: a number may be drawn a moment after the place is.
  #markBefore(number: bigint): Mark<Key> | undefined {
    return this.#marks[this.#marks.findLastIndex(({ next }) => next <= number) - 1]
  }

  /** Drops marks that no open or future transaction can need. */
  #forget(oldestOpen: bigint): void {
    const needed = this.#marks.findLastIndex(({ next }) => next <= oldestOpen) - 1
    if (needed > 0) this.#marks.splice(0, needed)
    if (this.#marks.length <= MARKS_MAX) return
    const half = MARKS_MAX / 2
    // The first two belong to the oldest transaction that is open.
    this.#marks = this.#marks.filter((_, index) => index < 2 || index >= half || index % 2 === 0)
  }
}

function readSnapshot(text: string): { readonly next: bigint; readonly open: readonly bigint[] } {
  const [, next, open] = text.split(':')
  return { next: BigInt(next!), open: open ? open.split(',').map(BigInt) : [] }
}

function lowest(numbers: readonly bigint[], most: bigint): bigint {
  let low = most
  for (const number of numbers) if (number < low) low = number
  return low
}
