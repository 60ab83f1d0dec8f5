// Errors as a command prints them on stderr: what failed, its code, which store, what to do. The stack only with --verbose.

import { type ErrorCode, isHoldfastError } from '../core/errors.js'
import { EXIT, type ExitCode, exitCodeOf } from './exit-codes.js'
import { type Output, visible } from './output/terminal.js'

interface CliErrorOptions {
  /** Default: wrong usage. */
  readonly exitCode?: ExitCode
  /** What to do about it. */
  readonly hint?: string
  /** The store, without its password. */
  readonly store?: string
  readonly cause?: unknown
}

/** A failure of the command itself, or of a library call to which the command adds something. */
export class CliError extends Error {
  override readonly name = 'CliError'
  readonly exitCode: ExitCode
  readonly hint: string | null
  readonly store: string | null

  constructor(message: string, options: CliErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.exitCode = options.exitCode ?? EXIT.usage
    this.hint = options.hint ?? null
    this.store = options.store ?? null
  }
}

const HINTS: Partial<Record<ErrorCode, string>> = {
  store_unavailable: 'check that it runs, or name another store with --url, HOLDFAST_URL or DATABASE_URL',
  access_denied: 'check user and password, or name another store with --url, HOLDFAST_URL or DATABASE_URL',
  job_not_found: 'check the id and the store; finished jobs are deleted after their retention',
  schedule_not_found: '`holdfast schedules list` shows all of them',
  bulk_not_found: '`holdfast bulk list` shows the newest',
  key_not_found: '`holdfast keys list` shows all of them',
  invalid_filter: '`holdfast jobs list --help` explains filters',
  limit_not_found: '`holdfast limits list` shows all of them',
  limit_unknown: 'correct the name, or make the limit with `holdfast limits set <name> --create`',
  limit_in_use: 'lift it with `holdfast limits set <name> --concurrency none --rate none --breaker none`',
  queue_full: 'try again later, wait for room with --on-full wait, or raise --max-depth of `holdfast queues set`',
  group_full: 'try again later, wait for room with --on-full wait, or raise --group-max-depth of `holdfast queues set`',
  wait_timeout: 'the job keeps running: `holdfast jobs show` shows it',
}

/** Prints an error for people and returns the exit code for programs. */
export function reportError(thrown: unknown, stderr: Output, { verbose }: { readonly verbose: boolean }): ExitCode {
  const own = thrown instanceof CliError ? thrown : null
  const cause = own?.cause ?? thrown
  const code = isHoldfastError(cause) ? cause.code : null
  const isUnexpected = own === null && code === null
  const hint = own?.hint ?? (code === null ? null : HINTS[code])
  const facts = { code, store: own?.store, try: hint ?? (isUnexpected && !verbose ? SEE_MORE : null) }
  stderr.line(`${stderr.style('red', 'error:')} ${message(thrown)}`)
  for (const [label, fact] of Object.entries(facts)) {
    if (fact != null) stderr.line(`${stderr.style('dim', `${label}:`.padEnd(6))} ${visible(fact)}`)
  }
  if (verbose) for (const line of stackLines(cause)) stderr.line(stderr.style('dim', visible(line)))
  return own?.exitCode ?? (code === null ? EXIT.unexpected : exitCodeOf(code))
}

const SEE_MORE = 'run it again with --verbose to see where it happened'

function message(thrown: unknown): string {
  if (!(thrown instanceof Error)) return visible(String(thrown))
  const isNamed = thrown instanceof CliError || isHoldfastError(thrown)
  const text = isNamed ? thrown.message : `${thrown.name}: ${thrown.message}`
  // Some messages quote the last lines of a server's log.
  return text.split('\n').map(visible).join('\n       ')
}

const CAUSES_MAX = 5

function stackLines(thrown: unknown): string[] {
  const lines: string[] = []
  let error = thrown
  for (let depth = 0; depth < CAUSES_MAX && error instanceof Error; depth++) {
    const stack = error.stack ?? `${error.name}: ${error.message}`
    lines.push(...`${depth === 0 ? '' : 'caused by '}${stack}`.split('\n'))
    error = error.cause
  }
  return lines
}
