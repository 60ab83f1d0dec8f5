// Which jobs die together. A job that would be dead after one more crash must not be held by a process that another suspect kills.
// This is checked in the store at the moment of the crash, because a history does not say which jobs ran side by side.

import { CRASHES_MAX } from '../../src/core/limits.js'
import type { Memory } from '../../src/stores/memory/memory.js'
import type { Violation } from '../history/verdict.js'

/** Watches the jobs that kill their process. */
export class Blame {
  readonly violations: Violation[] = []
  readonly #memory: Memory

  constructor(memory: Memory) {
    this.#memory = memory
  }

  /** The handler of this job kills its process now. */
  killed(id: string): void {
    const killer = this.#memory.jobs.get(id)
    if (killer === undefined || killer.lease === null || killer.crashes === 0) return
    for (const { facts, lease, crashes } of this.#memory.jobs.values()) {
      if (facts.id === id || lease === null || lease.worker !== killer.lease.worker) continue
      // A job that settles in its own transaction may be finished before any process knows whether that transaction was committed.
      if (!lease.begun || crashes < CRASHES_MAX - 1 || facts.type === 'transactional') continue
      const message = `was on its last chance while another suspect, ${id}, took its process down`
      this.violations.push({ invariant: 'I5', job: facts.id, message })
    }
  }
}
