// Exit codes: the part of the answer that every script reads.

import type { ErrorCode } from '../core/errors.js'

export const EXIT = {
  ok: 0,
  unexpected: 1,
  usage: 2,
  notFound: 3,
  cannotConnect: 4,
  conflict: 5,
  partial: 6,
  checkFailed: 7,
  timeout: 124,
  interrupted: 130,
  terminated: 143,
} as const

export type ExitCode = (typeof EXIT)[keyof typeof EXIT]

/** The list for the help. */
export const EXIT_CODES_HELP: string = `Exit codes:
  0    done; for a worker: asked to stop, and drained
  1    unexpected: a bug in Holdfast, or in a module of yours
  2    usage: an unknown command, a wrong option or filter, or --yes is missing
  3    not found: no such job, queue, schedule, key, bulk action, store or file
  4    cannot connect: the store is unavailable, denies access or is read-only
  5    conflict: the state does not allow it, a job ended badly, a port is taken
  6    partially done: some of the jobs were refused
  7    a check failed: in doctor, apply --dry-run would change something, or the
       schema is missing, too old or too new
  124  timeout
  130  interrupted by a second Ctrl-C (143: by a second SIGTERM)`

// The type makes it complete: a new error code needs an exit code here.
const BY_ERROR: Readonly<Record<ErrorCode, ExitCode>> = {
  invalid_option: EXIT.usage,
  invalid_name: EXIT.usage,
  invalid_payload: EXIT.usage,
  invalid_result: EXIT.unexpected,
  payload_too_large: EXIT.usage,
  invalid_schedule: EXIT.usage,
  invalid_filter: EXIT.usage,
  invalid_url: EXIT.usage,
  duplicate_handler: EXIT.usage,
  unsupported: EXIT.usage,
  unknown_parent: EXIT.notFound,
  job_not_found: EXIT.notFound,
  schedule_not_found: EXIT.notFound,
  bulk_not_found: EXIT.notFound,
  key_not_found: EXIT.notFound,
  queue_not_found: EXIT.notFound,
  queue_not_empty: EXIT.conflict,
  too_many_queues: EXIT.conflict,
  too_many_schedules: EXIT.conflict,
  too_many_limits: EXIT.conflict,
  too_many_tracks: EXIT.conflict,
  limit_unknown: EXIT.notFound,
  limit_not_found: EXIT.notFound,
  limit_in_use: EXIT.conflict,
  queue_full: EXIT.conflict,
  group_full: EXIT.conflict,
  key_conflict: EXIT.conflict,
  wrong_state: EXIT.conflict,
  kept_full: EXIT.conflict,
  child_failed: EXIT.unexpected,
  unstorable: EXIT.usage,
  job_dead: EXIT.conflict,
  job_cancelled: EXIT.conflict,
  wait_timeout: EXIT.timeout,
  timed_out: EXIT.timeout,
  store_unavailable: EXIT.cannotConnect,
  store_refused: EXIT.cannotConnect,
  store_read_only: EXIT.cannotConnect,
  store_stale: EXIT.cannotConnect,
  access_denied: EXIT.cannotConnect,
  schema_too_new: EXIT.checkFailed,
  schema_missing: EXIT.checkFailed,
  lease_lost: EXIT.unexpected,
  aborted: EXIT.unexpected,
  worker_lost: EXIT.unexpected,
  handler_stuck: EXIT.unexpected,
  module_failed: EXIT.unexpected,
  buffer_full: EXIT.unexpected,
  closed: EXIT.unexpected,
}

/** The exit code for an error's code. A code of a newer copy of the package counts as unexpected. */
export function exitCodeOf(code: ErrorCode): ExitCode {
  return BY_ERROR[code] ?? EXIT.unexpected
}
