// What an enqueue says about other jobs of its kind: an idempotency key, debounce, replace, throttle. ◄── enqueue-options.ts

import { checkKey, checkKeys } from '../core/check.js'
import { type Duration, durationMs } from '../core/duration.js'
import { HoldfastError } from '../core/errors.js'
import type { ReplaceRule } from '../core/flow/carried.js'
import type { IdempotencyKey } from '../core/job.js'

/** At most one of these. Keys are unique within a queue, and shared by all of them. */
export interface JobKeyOptions {
  /**
   * Keeps a second job away. As text, while the job that has it is unfinished; as `{ key, for }`, for that long from its
   * enqueue whatever becomes of it. The call answers with the job that has it and `created: false`.
   */
  readonly idempotencyKey?: string | { readonly key: string; readonly for: Duration }
  /** Runs once when no further call came for `wait`, with the newest payload; at the latest `maxWait` after the first call. While it runs,
   *  a call makes one more run. */
  readonly debounce?: { readonly key: string; readonly wait: Duration; readonly maxWait?: Duration }
  /** A job that waits takes this payload. While one runs, this payload gets one more run after it, and newer ones replace it. */
  readonly replace?: { readonly key: string }
  /** Of all calls within `for`, the first one counts: the others answer with its job and `created: false`. */
  readonly throttle?: { readonly key: string; readonly for: Duration }
}

export const KEY_OPTIONS = ['idempotencyKey', 'debounce', 'replace', 'throttle'] as const

interface KeyTerms {
  readonly idempotencyKey: IdempotencyKey | null
  readonly replace?: ReplaceRule
}

const NO_KEY: KeyTerms = Object.freeze({ idempotencyKey: null })

/** The key of a job and what happens when it is held. Raises `invalid_option`. */
export function resolveKeyOptions(options: JobKeyOptions): KeyTerms {
  const given = KEY_OPTIONS.filter((name) => options[name] !== undefined)
  if (given.length === 0) return NO_KEY
  if (given.length > 1) {
    throw new HoldfastError(
      'invalid_option',
      `${given.join(' and ')} both say what to do about other jobs: give one of them`,
    )
  }
  const { idempotencyKey, debounce, replace, throttle } = options
  if (debounce !== undefined) return debounced(debounce)
  if (replace !== undefined) {
    checkKeys('replace', replace, ['key'])
    return { idempotencyKey: keyOf('replace', replace), replace: { waitMs: 0, maxWaitMs: null } }
  }
  if (throttle !== undefined) return { idempotencyKey: timedKey('throttle', throttle) }
  if (typeof idempotencyKey === 'string') return { idempotencyKey: { key: checkKey(idempotencyKey), ttlMs: null } }
  return { idempotencyKey: timedKey('idempotencyKey', idempotencyKey!) }
}

function timedKey(name: string, value: { readonly key: string; readonly for: Duration }): IdempotencyKey {
  checkKeys(name, value, ['key', 'for'])
  return { key: checkKey(value.key, `${name}.key`), ttlMs: durationMs(value.for, { name: `${name}.for`, minMs: 1 }) }
}

function debounced(value: NonNullable<JobKeyOptions['debounce']>): KeyTerms {
  checkKeys('debounce', value, ['key', 'wait', 'maxWait'])
  const waitMs = durationMs(value.wait, { name: 'debounce.wait', minMs: 1 })
  const maxWaitMs =
    value.maxWait === undefined ? null : durationMs(value.maxWait, { name: 'debounce.maxWait', minMs: waitMs })
  return { idempotencyKey: keyOf('debounce', value), replace: { waitMs, maxWaitMs } }
}

function keyOf(name: string, { key }: { readonly key: string }): IdempotencyKey {
  return { key: checkKey(key, `${name}.key`), ttlMs: null }
}
