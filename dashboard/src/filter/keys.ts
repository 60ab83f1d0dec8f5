// The keys of the filter language, as the filter bar offers them.

import { DEAD_REASONS, JOB_STATES } from '../../../src/core/states.js'

/** One key and what may follow it. */
export interface FilterKey {
  readonly key: string
  readonly meaning: string
  readonly example: string
  /** Whether `-key:` is allowed. Default false. */
  readonly canNegate?: boolean
  /** Values that are always the same; others come from what the page knows. */
  readonly values?: readonly string[]
}

const AGES = ['<5m', '<1h', '<1d', '>1h', '>1d', '>7d'] as const

/** In the order they are offered. */
export const FILTER_KEYS: readonly FilterKey[] = [
  {
    key: 'state',
    meaning: 'the state of the job',
    example: 'state:dead,retrying',
    canNegate: true,
    values: JOB_STATES,
  },
  { key: 'queue', meaning: 'its queue, * matches any text', example: 'queue:mail_*', canNegate: true },
  { key: 'type', meaning: 'which handler runs it', example: 'type:send_*', canNegate: true },
  { key: 'error', meaning: 'text in its last error', example: 'error:"timed out"' },
  { key: 'tag', meaning: 'one of its tags', example: 'tag:eu', canNegate: true },
  { key: 'payload.', meaning: 'a value inside the payload', example: 'payload.user.id:42' },
  { key: 'attempt', meaning: 'how often it was tried', example: 'attempt:>3', values: ['>1', '>3', '>=10'] },
  { key: 'created', meaning: 'younger < or older > than, or a date', example: 'created:<1h', values: AGES },
  { key: 'finished', meaning: 'when it ended', example: 'finished:<1h', values: AGES },
  { key: 'priority', meaning: 'higher runs first', example: 'priority:>0', values: ['>0', '0', '<0'] },
  { key: 'reason', meaning: 'why it is dead', example: 'reason:attempts', values: DEAD_REASONS },
  { key: 'worker', meaning: 'the worker that runs it or ran it last', example: 'worker:web-1*' },
  { key: 'schedule', meaning: 'the schedule that made it', example: 'schedule:nightly' },
  { key: 'group', meaning: 'its group, by the whole name', example: 'group:acme' },
  { key: 'key', meaning: 'its idempotency key', example: 'key:welcome:42' },
  { key: 'id', meaning: 'these jobs only', example: 'id:0199…' },
  { key: 'fingerprint', meaning: 'a group of dead letters', example: 'fingerprint:1f0c2a' },
]
