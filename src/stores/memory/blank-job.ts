// A job as it is written.

import type { NewJob } from '../../core/job.js'
import { copyOf } from './copy.js'
import { type Job, type Memory, NORMAL } from './memory.js'

/** A job nothing has happened to. */
export function blankJob(memory: Memory, newJob: NewJob, schedule: Job['schedule'], nowMs: number): Job {
  return {
    facts: copyOf(newJob),
    createdAtMs: nowMs,
    schedule,
    state: 'blocked',
    runAtMs: runAtMs(newJob, nowMs),
    lane: NORMAL,
    position: 0,
    order: ++memory.lastPosition,
    readySinceMs: 0,
    attempt: 0,
    crashes: 0,
    fence: 0,
    lease: null,
    ending: null,
    attempts: [],
    logs: [],
    progress: null,
    kept: new Map(),
    waitsOn: null,
    output: [],
    signals: [],
    wait: null,
    requeues: [],
  }
}

function runAtMs({ when, replace }: NewJob, nowMs: number): number | null {
  if (replace !== undefined && replace.waitMs > 0)
    return nowMs + Math.min(replace.waitMs, replace.maxWaitMs ?? replace.waitMs)
  if (when === null) return null
  return 'runAtMs' in when ? when.runAtMs : nowMs + when.delayMs
}
