// What the command's exit code says: the one part of its answer that every script reads.

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

/** The list as the help shows it. */
export const EXIT_CODES_HELP: string = `Exit codes:
  0    done; of a worker: told to stop, drained
  1    unexpected: a fault in Holdfast, or in a module it was given
  2    usage: an unknown command, a wrong option or filter, a question nobody can be asked without --yes
  3    not found: no such job, queue, schedule, key, bulk action, store or file
  4    cannot connect: the store is away, denies access or takes no writes
  5    conflict: the job's state does not allow it, it ended badly, or a port is taken
  6    partially done: some of the jobs were refused
  7    a check failed: of doctor, or the schema is too new, missing or behind
  124  timeout
  130  interrupted at once by a second Ctrl-C (143: by a second SIGTERM)`

// Complete by its type: whoever adds an error code decides here what scripts see.
const BY_ERROR: Readonly<Record<ErrorCode, ExitCode>> = {
  invalid_option: EXIT.usage,
  invalid_name: EXIT.usage,
  invalid_payload: EXIT.usage,
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
  key_conflict: EXIT.conflict,
  wrong_state: EXIT.conflict,
  job_dead: EXIT.conflict,
  job_cancelled: EXIT.conflict,
  wait_timeout: EXIT.timeout,
  timed_out: EXIT.timeout,
  store_unavailable: EXIT.cannotConnect,
  store_refused: EXIT.cannotConnect,
  store_read_only: EXIT.cannotConnect,
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

/** The exit code for an error's code. A code of a newer copy of the package is unexpected here. */
export function exitCodeOf(code: ErrorCode): ExitCode {
  return BY_ERROR[code] ?? EXIT.unexpected
}
