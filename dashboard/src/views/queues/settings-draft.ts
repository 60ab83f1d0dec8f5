// The settings of a queue in a form: the fields, their mistakes, and the request.

import type { QueueSettings } from '../../api/types.js'
import { readDuration, writeDuration } from './durations.js'

/** What stands in the fields. An empty one falls back to the default. */
export interface SettingsDraft {
  readonly maxAttempts: string
  readonly timeout: string
  readonly maxAge: string
  readonly retention: string
  readonly backoff: '' | 'list' | 'exponential' | 'linear' | 'fixed'
  readonly retryBase: string
  readonly retryCap: string
  readonly jitter: boolean
}

/** The fields that are typed. */
export type TextField = Exclude<keyof SettingsDraft, 'backoff' | 'jitter'>

export type Problems = Readonly<Record<TextField, string | null>>

const written = (ms: number | null | undefined) => (ms === undefined ? '' : ms === null ? 'none' : writeDuration(ms))

export function draftOf({ limits, retentionMs }: QueueSettings): SettingsDraft {
  const { retry } = limits
  return {
    maxAttempts: limits.maxAttempts === undefined ? '' : String(limits.maxAttempts),
    timeout: written(limits.timeoutMs),
    maxAge: written(limits.maxAgeMs),
    retention: written(retentionMs),
    backoff: retry === undefined ? '' : typeof retry.backoff === 'string' ? retry.backoff : 'list',
    retryBase: written(retry?.baseMs),
    retryCap: written(retry?.capMs),
    jitter: retry?.jitter ?? true,
  }
}

/** What is wrong with each field, or null. The server checks again. */
export function problemsOf(draft: SettingsDraft): Problems {
  const length = (text: string, mayBeNone: boolean) => {
    if (text.trim() === '' || (mayBeNone && text.trim() === 'none')) return null
    return readDuration(text) === null ? 'write a duration such as 30s, 5m, 2h or 7d' : null
  }
  const attempts = Number(draft.maxAttempts)
  const isWhole = draft.maxAttempts.trim() === '' || (Number.isInteger(attempts) && attempts >= 1 && attempts <= 10_000)
  return {
    maxAttempts: isWhole ? null : 'a whole number from 1 to 10,000',
    timeout: length(draft.timeout, true),
    maxAge: length(draft.maxAge, true),
    retention: length(draft.retention, false),
    retryBase: length(draft.retryBase, false),
    retryCap: length(draft.retryCap, false),
  }
}

/** The settings in the library's own option names; what is empty is left out and becomes the default. */
export function settingsOf(draft: SettingsDraft, before: QueueSettings): Readonly<Record<string, unknown>> {
  const { maxAttempts, timeout, maxAge, retention } = draft
  const bound = (name: string, text: string) => {
    const trimmed = text.trim()
    return trimmed === '' ? {} : { [name]: trimmed === 'none' ? null : readDuration(trimmed) }
  }
  return {
    ...(maxAttempts.trim() === '' ? {} : { maxAttempts: Number(maxAttempts) }),
    ...bound('timeout', timeout),
    ...bound('maxAge', maxAge),
    ...bound('retention', retention),
    ...retryOf(draft, before.limits.retry),
  }
}

function retryOf(draft: SettingsDraft, before: QueueSettings['limits']['retry']): Readonly<Record<string, unknown>> {
  const { backoff, retryBase, retryCap, jitter } = draft
  if (backoff === '') return {}
  // A list of waits is set in code; here it is kept as it is.
  if (backoff === 'list')
    return before === undefined ? {} : { retry: { backoff: before.backoff, cap: before.capMs, jitter } }
  const base = readDuration(retryBase)
  const cap = readDuration(retryCap)
  return { retry: { backoff, ...(base === null ? {} : { base }), ...(cap === null ? {} : { cap }), jitter } }
}
