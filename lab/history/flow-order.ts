// The order within groups that ask for it: no job is claimed while an earlier one of its group waits and could be seen.

import type { FlowTerms } from './flow-terms.js'
import { type Life, type Reading, report } from './life.js'
import { shown } from './steps.js'

/** A job that is ready, in its group. */
interface Waiting {
  readonly life: Life
  readonly place: number
  /** When it was surely visible to every claim that begins then. */
  readonly surelyAt: number
}

export class FlowOrder {
  readonly #reading: Reading
  readonly #terms: FlowTerms
  readonly #waiting = new Map<string, Map<Life, Waiting>>()
  readonly #places = new Map<Life, number>()

  constructor(reading: Reading, terms: FlowTerms) {
    this.#reading = reading
    this.#terms = terms
  }

  /** A job of a group became ready. */
  waits(
    key: string,
    waiting: Omit<Waiting, 'place'> & { readonly place: number | undefined; readonly order: number },
  ): void {
    const { life, surelyAt, order } = waiting
    const place = waiting.place ?? this.#places.get(life) ?? order
    this.#places.set(life, place)
    const group = this.#waiting.get(key) ?? new Map<Life, Waiting>()
    this.#waiting.set(key, group)
    group.set(life, { life, place, surelyAt })
  }

  /** It was claimed. */
  claimed(key: string, life: Life, { began, at }: { readonly began: number; readonly at: number }): void {
    const group = this.#waiting.get(key)
    const own = group?.get(life)
    if (group === undefined || own === undefined) return
    group.delete(life)
    if (group.size === 0) {
      this.#waiting.delete(key)
      return
    }
    const queue = life.stored!.queue
    if (!this.#terms.groupsOf(queue, began, at).every(({ ordered }) => ordered)) return
    this.#reading.counts.flow.ordered += group.size
    for (const other of group.values()) {
      if (other.place >= own.place || other.surelyAt > began) continue
      const what = `claimed at ${shown(at)} while ${other.life.job}, before it in group ${life.stored!.group}, had been ready since ${shown(other.surelyAt)}`
      report(this.#reading, 'I10', life.job, what)
      return
    }
  }

  /** It waits no longer, and was not claimed. */
  left(key: string, life: Life): void {
    const group = this.#waiting.get(key)
    group?.delete(life)
    if (group?.size === 0) this.#waiting.delete(key)
  }
}
