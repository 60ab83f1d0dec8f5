// Every error Holdfast raises. Callers test `error.code`; the message is for people and may change.

/** The closed set of codes. docs/errors.md explains each; a test keeps the two lists equal. */
export const ERROR_CODES = [
  'invalid_option',
  'invalid_name',
  'invalid_payload',
  'invalid_result',
  'payload_too_large',
  'invalid_schedule',
  'invalid_filter',
  'invalid_url',
  'unknown_parent',
  'key_conflict',
  'job_not_found',
  'schedule_not_found',
  'bulk_not_found',
  'key_not_found',
  'queue_not_found',
  'queue_not_empty',
  'too_many_queues',
  'too_many_schedules',
  'too_many_limits',
  'too_many_tracks',
  'limit_unknown',
  'limit_in_use',
  'limit_not_found',
  'queue_full',
  'group_full',
  'wrong_state',
  'unstorable',
  'kept_full',
  'child_failed',
  'job_dead',
  'job_cancelled',
  'wait_timeout',
  'lease_lost',
  'timed_out',
  'aborted',
  'worker_lost',
  'handler_stuck',
  'module_failed',
  'duplicate_handler',
  'buffer_full',
  'closed',
  'store_unavailable',
  'store_refused',
  'store_read_only',
  'store_stale',
  'access_denied',
  'schema_too_new',
  'schema_missing',
  'unsupported',
] as const

/** One of the codes an error can carry. */
export type ErrorCode = (typeof ERROR_CODES)[number]

/** What an error may say beyond its message. */
export interface HoldfastErrorOptions {
  /** The error that led to this one. */
  readonly cause?: unknown
  /** True when the same call may succeed later without any change. Default false. */
  readonly retryable?: boolean
  /** Machine-readable facts about the failure: ids, limits, states. Never payloads. */
  readonly details?: Readonly<Record<string, unknown>>
}

/**
 * The one error class. Its message says what failed, for which thing, what was got, and what to do.
 *
 * @example
 * try { await holdfast.cancel(id) } catch (error) {
 *   if (isHoldfastError(error, 'wrong_state')) console.log('too late to cancel')
 * }
 */
export class HoldfastError extends Error {
  override readonly name = 'HoldfastError'
  readonly code: ErrorCode
  readonly retryable: boolean
  readonly details: Readonly<Record<string, unknown>>

  constructor(code: ErrorCode, message: string, options: HoldfastErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.code = code
    this.retryable = options.retryable ?? false
    this.details = options.details ?? {}
  }

  /** What JSON.stringify writes: an error's own message and name are not among its enumerable fields, so a log line would
   *  have neither. The stack and the cause are left out: they may hold what must not leave the process. */
  toJSON(): Pick<HoldfastError, 'name' | 'code' | 'message' | 'retryable' | 'details'> {
    const { name, code, message, retryable, details } = this
    return { name, code, message, retryable, details }
  }
}

/** True when `error` is one of ours (and has that code, when one is given), whichever copy of the package made it. */
export function isHoldfastError(error: unknown, code?: ErrorCode): error is HoldfastError {
  if (!(error instanceof Error) || error.name !== 'HoldfastError') return false
  return code === undefined || (error as HoldfastError).code === code
}

/** `invalid_option`: the rule that was broken, and what was got where that is given. */
export function invalidOption(rule: string, ...got: readonly unknown[]): HoldfastError {
  return new HoldfastError('invalid_option', got.length === 0 ? rule : `${rule}, got ${show(got[0])}`)
}

/** What was thrown, as an error. */
export function asError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown))
}

/** How a value looks in a message: short, quoted, on one line, whatever it is. */
export function show(value: unknown): string {
  if (typeof value === 'string') return clip(JSON.stringify(value))
  if (typeof value === 'bigint') return `${value}n`
  if (typeof value === 'function') return 'a function'
  if (typeof value === 'symbol') return 'a symbol'
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? 'an invalid Date' : value.toISOString()
  if (Array.isArray(value)) return `an array of ${value.length}`
  if (typeof value === 'object' && value !== null) return 'an object'
  return String(value)
}

function clip(text: string): string {
  return text.length <= 80 ? text : `${text.slice(0, 77)}…"`
}
