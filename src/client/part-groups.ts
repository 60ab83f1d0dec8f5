// Group commits of a store that keeps its queues apart (a Redis Cluster): one for each part, so that a part that is away holds up no
// enqueue of another. What may wait is bounded for each part by itself. ◄── client.ts · next: group-commit.ts

import type { NewJob } from '../core/job.js'
import type { QueueParts } from '../core/queue-parts.js'
import type { GroupCommit } from './group-commit.js'

interface Makers<Result> {
  readonly plain: () => GroupCommit<Result>
  readonly keyed: () => GroupCommit<Result>
}

export class PartGroups<Result> {
  readonly #parts: QueueParts
  readonly #make: Makers<Result>
  readonly #plain = new Map<number, GroupCommit<Result>>()
  readonly #keyed = new Map<number, GroupCommit<Result>>()

  constructor(parts: QueueParts, make: Makers<Result>) {
    this.#parts = parts
    this.#make = make
  }

  /** The group of a job, made when it is first needed. */
  of({ queue, id }: Pick<NewJob, 'queue' | 'id'>, isPlain: boolean): GroupCommit<Result> {
    const part = this.#parts.of(queue, id)
    const groups = isPlain ? this.#plain : this.#keyed
    let group = groups.get(part)
    if (group === undefined) {
      group = isPlain ? this.#make.plain() : this.#make.keyed()
      groups.set(part, group)
    }
    return group
  }

  async close(): Promise<void> {
    await Promise.all([...this.#plain.values(), ...this.#keyed.values()].map((group) => group.close()))
  }
}
