// Who dies with whom: a job that would be dead after one more crash must not be in the hands of a process that another suspect
// takes down. Looked at in the store at the moment of the crash: a history does not say who began beside whom.

import { CRASHES_MAX } from '../../src/core/limits.js'
import type { Memory } from '../../src/stores/memory/memory.js'
import type { Violation } from '../history/verdict.js'

/** Watches the jobs that take their process down. */
export class Blame {
  readonly violations: Violation[] = []
  readonly #memory: Memory

  constructor(memory: Memory) {
    this.#memory = memory
  }

  /** The handler of this job takes its process down now. */
  killed(id: string): void {
    const killer = this.#memory.jobs.get(id)
    if (killer === undefined || killer.lease === null || killer.crashes === 0) return
    for (const { facts, lease, crashes } of this.#memory.jobs.values()) {
      if (facts.id === id || lease === null || lease.worker !== killer.lease.worker) continue
      // One that settles in a transaction of its own is done with before anybody knows whether that was committed.
      if (!lease.begun || crashes < CRASHES_MAX - 1 || facts.type === 'transactional') continue
      const message = `was on its last chance while another suspect, ${id}, took its process down`
      this.violations.push({ invariant: 'I5', job: facts.id, message })
    }
  }
}
