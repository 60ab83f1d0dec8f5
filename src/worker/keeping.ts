// The writers of what a worker's jobs keep: one pair, or one for each part of a store that keeps its queues apart, so that a part that is
// away holds up no job of another. ◄── worker.ts · next: kept-writes.ts

import type { Emit } from '../core/events.js'
import type { Lease } from '../core/job.js'
import type { JobStore } from '../core/job-store.js'
import type { Ports } from '../core/ports.js'
import { KeptWrites } from './kept-writes.js'
import { OutputWrites } from './output-writes.js'

interface Keeping {
  readonly kept: KeptWrites
  readonly output: OutputWrites
}

interface KeepingDeps {
  readonly store: JobStore
  readonly ports: Ports
  readonly emit: Emit
}

/** The writers for a job. */
export type KeepingOf = (job: Pick<Lease, 'queue' | 'id'>) => Keeping

export function keepingOf(deps: KeepingDeps): KeepingOf {
  const byPart = new Map<number, Keeping>()
  return ({ queue, id }) => {
    const part = deps.store.parts?.of(queue, id) ?? 0
    let keeping = byPart.get(part)
    if (keeping === undefined) {
      keeping = { kept: new KeptWrites(deps), output: new OutputWrites(deps) }
      byPart.set(part, keeping)
    }
    return keeping
  }
}
