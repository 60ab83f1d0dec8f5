// Label values that cannot grow without end. Every distinct value of a label is a series that Prometheus keeps for ever, and
// names of queues and types can come from outside.

/** What stands for every name beyond the bound. */
const OTHER = 'other'

/** The names of one kind that get a label of their own: the first that were seen, up to a bound. */
export class BoundedNames {
  readonly #names: Set<string>
  readonly #max: number

  /** `kept` get one whatever comes first. */
  constructor(max: number, kept: readonly string[] = []) {
    this.#max = Math.max(max, kept.length)
    this.#names = new Set(kept)
  }

  /** The name itself, or `other`. */
  of(name: string): string {
    if (this.#names.has(name)) return name
    if (this.#names.size >= this.#max) return OTHER
    this.#names.add(name)
    return name
  }
}
