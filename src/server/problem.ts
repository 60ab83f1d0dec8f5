// What goes wrong, as application/problem+json (RFC 9457): one shape, the library's codes and a few of HTTP's own.

import { type ErrorCode, isHoldfastError } from '../core/errors.js'

/** Codes of answers that the library knows nothing of. */
type HttpCode =
  | 'unauthenticated'
  | 'forbidden'
  | 'read_only'
  | 'cross_site'
  | 'misdirected'
  | 'bad_request'
  | 'not_found'
  | 'method_not_allowed'
  | 'unsupported_media_type'
  | 'body_too_large'
  | 'invalid_json'
  | 'request_timeout'
  | 'too_many_requests'
  | 'internal'

interface RefusalOptions {
  readonly headers?: Readonly<Record<string, string>>
  /** Further fields of the problem. */
  readonly details?: Readonly<Record<string, unknown>>
}

/** A request that is not served, and why. */
export class Refusal extends Error {
  override readonly name = 'Refusal'
  readonly status: number
  readonly code: HttpCode | ErrorCode
  readonly headers: Readonly<Record<string, string>>
  readonly details: Readonly<Record<string, unknown>>

  constructor(status: number, code: HttpCode | ErrorCode, detail: string, options: RefusalOptions = {}) {
    super(detail)
    this.status = status
    this.code = code
    this.headers = options.headers ?? {}
    this.details = options.details ?? {}
  }
}

const STATUS: Readonly<Partial<Record<ErrorCode, number>>> = {
  invalid_option: 400,
  invalid_name: 400,
  invalid_payload: 400,
  invalid_schedule: 400,
  invalid_filter: 400,
  invalid_url: 400,
  unsupported: 400,
  payload_too_large: 413,
  unknown_parent: 422,
  key_conflict: 409,
  wrong_state: 409,
  job_not_found: 404,
  schedule_not_found: 404,
  bulk_not_found: 404,
  key_not_found: 404,
  queue_not_found: 404,
  queue_not_empty: 409,
  too_many_queues: 409,
  too_many_schedules: 409,
}

const RETRY_AFTER_S = '2'

/** The refusal an error means. What the store says about itself stays here: it may name hosts, users and statements. */
export function refusalOf(error: unknown): Refusal {
  if (error instanceof Refusal) return error
  if (!isHoldfastError(error)) return new Refusal(500, 'internal', 'something failed that should not have')
  const status = STATUS[error.code]
  if (status !== undefined) return new Refusal(status, error.code, error.message, { details: error.details })
  return new Refusal(503, error.code, STORE_WORDS[error.code] ?? 'the store cannot serve this now', {
    headers: { 'retry-after': RETRY_AFTER_S },
  })
}

const STORE_WORDS: Readonly<Partial<Record<ErrorCode, string>>> = {
  store_unavailable: 'the store does not answer: it is away or too busy; try again',
  store_read_only: 'the store takes no changes at the moment: it is read-only, or its disk is full',
  store_refused: 'the store refused the request: `holdfast doctor` says more',
  access_denied: 'the store lets this server in no more: `holdfast doctor` says more',
  schema_too_new: 'the store was migrated by a newer version than this server: upgrade the server',
  schema_missing: 'the store has not been migrated: run `holdfast migrate`',
  buffer_full: 'too many jobs wait to be written: slow down and try again',
  closed: 'the server is closing: try again elsewhere',
}

const TITLES: Readonly<Record<number, string>> = {
  400: 'Bad request',
  401: 'Not signed in',
  403: 'Not allowed',
  404: 'Not found',
  405: 'Method not allowed',
  408: 'Too slow',
  409: 'Conflict',
  413: 'Too large',
  415: 'Unsupported media type',
  417: 'Expectation failed',
  421: 'Misdirected request',
  422: 'Cannot be done',
  429: 'Too many requests',
  431: 'Headers too large',
  500: 'Internal error',
  503: 'Not available',
}

/** Where a problem came up. */
export interface Instance {
  /** The path that was asked for, without its query, which may hold secrets. */
  readonly path: string
  readonly requestId: string
}

/** The body of a problem. Details never override what every problem has. */
function problemBody(refusal: Refusal, { path, requestId }: Instance): Readonly<Record<string, unknown>> {
  return {
    ...refusal.details,
    type: `errors#${refusal.code}`,
    title: TITLES[refusal.status] ?? 'Failed',
    status: refusal.status,
    code: refusal.code,
    detail: refusal.message,
    instance: path,
    requestId,
  }
}

export function problemResponse(refusal: Refusal, instance: Instance): Response {
  return new Response(JSON.stringify(problemBody(refusal, instance)), {
    status: refusal.status,
    headers: { 'content-type': 'application/problem+json', ...refusal.headers },
  })
}
