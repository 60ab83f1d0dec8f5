// Keeps progress and log lines of running jobs.

import type { JobNote } from '../../core/job.js'
import { heldJob, type Memory } from './memory.js'

export function note(memory: Memory, notes: readonly JobNote[]): void {
  for (const { progress, logs, ...lease } of notes) {
    const job = heldJob(memory, lease)
    if (job === null) continue
    if (progress !== null) job.progress = progress
    for (const { atMs, text } of logs) job.logs.push({ atMs, text })
  }
}
