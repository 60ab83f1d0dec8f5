// Counts the jobs in each state.

import type { JobState } from '../../core/states.js'
import { ATTEMPTS_WINDOW, type QueueStats } from '../../core/views.js'
import type { Job, Memory } from './memory.js'
import { compareText } from './ordered.js'

export function stats(memory: Memory, queue: string | null, nowMs: number): QueueStats {
  const jobs = [...memory.jobs.values()].filter((job) => queue === null || job.facts.queue === queue)
  const count = (state: JobState) => jobs.filter((job) => job.state === state).length
  return {
    blocked: count('blocked'),
    scheduled: count('scheduled'),
    ready: count('ready'),
    running: count('running'),
    retrying: count('retrying'),
    dead: count('dead'),
    oldestAgeS: oldestAgeMs(jobs, nowMs) / 1_000,
    attemptsP99: attemptsP99(jobs),
    isExact: true,
  }
}

function oldestAgeMs(jobs: readonly Job[], nowMs: number): number {
  const ages = jobs.filter((job) => job.state === 'ready').map((job) => nowMs - job.readySinceMs)
  return ages.reduce((oldest, age) => Math.max(oldest, age), 0)
}

function attemptsP99(jobs: readonly Job[]): number {
  const attempts = jobs
    .filter((job) => job.state === 'succeeded' || job.state === 'dead')
    .sort((one, other) => compareText(other.facts.id, one.facts.id))
    .slice(0, ATTEMPTS_WINDOW)
    .map((job) => job.attempt)
    .sort((one, other) => one - other)
  return attempts[Math.ceil(attempts.length * 0.99) - 1] ?? 0
}
