// How much a store remembers for a failover: the option, checked.

import { checkKeys, checkWhole } from '../../core/check.js'
import { type Duration, durationMs } from '../../core/duration.js'
import { invalidOption } from '../../core/errors.js'

/** How much is kept: the oldest goes first. */
export interface MemoryBounds {
  readonly ms: number
  readonly bytes: number
  readonly jobs: number
}

/** A minute is far more than a standby that may be promoted is behind. */
export const MEMORY_DEFAULTS: MemoryBounds = { ms: 60_000, bytes: 64 * 1024 * 1024, jobs: 500_000 }

export interface FailoverMemoryOptions {
  /** For how long. Default '60s'; at least '1s', at most '1h'. It must be longer than a standby that may be promoted is behind. */
  readonly time?: Duration
  /** How many bytes. Default 64 MiB; from 64 KiB to 4 GiB. */
  readonly bytesMax?: number
  /** How many jobs and leases. Default 500 000; from 100 to 10,000,000. */
  readonly jobsMax?: number
}

/** Null when nothing is to be remembered. Raises `invalid_option`. */
export function resolveMemory(options: FailoverMemoryOptions | boolean | undefined): MemoryBounds | null {
  if (options === undefined || options === false) return null
  if (options === true) return MEMORY_DEFAULTS
  if (typeof options !== 'object' || options === null) {
    throw invalidOption("failoverMemory must be true, false or such as { time: '60s', bytesMax: 67108864 }", options)
  }
  checkKeys('failoverMemory', options, ['time', 'bytesMax', 'jobsMax'])
  const { time, bytesMax = MEMORY_DEFAULTS.bytes, jobsMax = MEMORY_DEFAULTS.jobs } = options
  return {
    ms:
      time === undefined
        ? MEMORY_DEFAULTS.ms
        : durationMs(time, { name: 'failoverMemory.time', minMs: 1_000, maxMs: 3_600_000 }),
    bytes: checkWhole('failoverMemory.bytesMax', bytesMax, 64 * 1024, 4 * 1024 ** 3),
    jobs: checkWhole('failoverMemory.jobsMax', jobsMax, 100, 10_000_000),
  }
}
