// The jobs of the experiment with long jobs, and what its processes are given and write down.

import { defineJob } from '../../src/client/define-job.js'
import type { JobDefinition } from '../../src/core/definition.js'

/** A process of it. */
export interface CarefulAssignment {
  readonly url: string
  readonly record: string
  readonly slots: number
  readonly leaseMs: number
  readonly stepMs: number
}

interface LongPayload {
  readonly steps: number
  /** Whether each step writes a piece of output. */
  readonly writes: boolean
}

/** A line of the record. */
export interface CarefulLine {
  readonly what: 'step' | 'effect'
  readonly id: string
  readonly name: string
  readonly fence: number
  readonly begun: number
}

type Long = JobDefinition<LongPayload, LongPayload>

/** A job of many steps, and one of many effects. */
export const longJob: Long = defineJob<LongPayload>('long_job', {
  maxAttempts: 10_000,
  retry: { backoff: 'fixed', base: '50ms' },
})
export const effectJob: Long = defineJob<LongPayload>('effect_job', {
  maxAttempts: 10_000,
  retry: { backoff: 'fixed', base: '50ms' },
})

/** The provider that takes idempotency keys, and the one that does not. Each call is committed when it is answered. */
export const PROVIDERS = `
CREATE TABLE honouring (key text PRIMARY KEY, calls integer NOT NULL DEFAULT 1);
CREATE TABLE forgetful (key text NOT NULL)`
