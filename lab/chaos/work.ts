// Shared by the worker processes of a chaos run and their parent: the jobs, the setup of a process, its commands.

import { defineJob } from '../../src/client/define-job.js'
import type { JobDefinition } from '../../src/core/definition.js'
import type { GeneratedJob, GeneratedOptions } from '../gen/handlers.js'
import type { GeneratedPayload } from '../gen/mix.js'
import type { Durability } from './settings.js'

export interface WorkerSetup {
  readonly url: string
  readonly schema: string
  /** Where effects outside a transaction go; null for the store itself. */
  readonly effectsUrl: string | null
  readonly durability: Durability
  readonly name: string
  readonly processRun: number
  /** File for its records. */
  readonly record: string
  readonly leaseMs: number
  readonly concurrency: number
  readonly prefetch: number
  /** How many children run its handlers; 0 for none. */
  readonly processes: number
  readonly queues: readonly string[]
}

/** The message of a worker process when it is up. */
export interface WorkerReady {
  /** As claims name it. */
  readonly worker: string
}

/** The queues of a run, and those of a run with flow control beside them. */
export const QUEUES: readonly string[] = ['gen', 'special']
/** The queues of the generated load, where it is spread over several: the first is the one of the jobs' definitions. */
export function queueOf(number: number): string {
  return number === 0 ? GENERATED.queue! : `${GENERATED.queue}-${number}`
}

export const FLOW_QUEUES: readonly string[] = ['mail', 'bill', 'ship', 'bulk', 'push']

/** Faults that a worker process makes to itself on command. */
export type WorkerOrder =
  | { readonly order: 'block'; readonly ms: number }
  | { readonly order: 'die after effect' }
  | { readonly order: 'kill child' }
  | { readonly order: 'dependency'; readonly isDown: boolean }

/** Attempts outlast a minute of outages at a backoff of at most a second. */
export const GENERATED: GeneratedOptions = { queue: 'gen', maxAttempts: 200, timeout: '30s', backoffCap: '1s' }

const soon = { backoff: 'fixed', base: '200ms' } as const

/** Jobs with a special purpose: one kills its process, three may run only in a child, one never settles, one has a transaction that
 *  outlives its lease and is rolled back, one belongs to schedules. */
export const SPECIAL: {
  readonly killer: GeneratedJob
  readonly exiting: GeneratedJob
  readonly spinning: GeneratedJob
  readonly leaking: GeneratedJob
  readonly stuck: GeneratedJob
  readonly outliving: GeneratedJob
  readonly tick: JobDefinition<unknown, unknown>
} = {
  killer: defineJob<GeneratedPayload>('killer', { queue: 'special', maxAttempts: 20, retry: soon }),
  exiting: defineJob<GeneratedPayload>('exiting', { queue: 'special', maxAttempts: 20, retry: soon }),
  spinning: defineJob<GeneratedPayload>('spinning', { queue: 'special', maxAttempts: 20, timeout: '1s', retry: soon }),
  leaking: defineJob<GeneratedPayload>('leaking', { queue: 'special', maxAttempts: 20, timeout: '60s', retry: soon }),
  stuck: defineJob<GeneratedPayload>('stuck', { queue: 'special', maxAttempts: 2, timeout: '1s', retry: soon }),
  outliving: defineJob<GeneratedPayload>('outliving', {
    queue: 'special',
    maxAttempts: 20,
    timeout: '60s',
    retry: soon,
  }),
  tick: defineJob('tick', { queue: 'special', maxAttempts: 100, retry: soon }),
}

/** Jobs of a run with flow control: one calls a dependency that may be away, one is told to wait by what it calls, one runs in batches. */
export const FLOW_JOBS: {
  readonly calling: GeneratedJob
  readonly told: GeneratedJob
  readonly pushing: GeneratedJob
} = {
  calling: defineJob<GeneratedPayload>('calling', { queue: 'mail', maxAttempts: 200, timeout: '30s', retry: soon }),
  told: defineJob<GeneratedPayload>('told', { queue: 'mail', maxAttempts: 200, timeout: '30s', retry: soon }),
  pushing: defineJob<GeneratedPayload>('pushing', {
    ...{ queue: 'push', maxAttempts: 200, timeout: '30s', retry: soon },
    concurrency: 30,
  }),
}
