// Errors as application/problem+json (RFC 9457), with the library's codes and a few of HTTP's own.

import { type ErrorCode, isHoldfastError } from '../core/errors.js'

/** Codes that exist only in the HTTP API. */
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

/** A refused request, and why. */
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
  unstorable: 422,
  kept_full: 409,
  job_not_found: 404,
  schedule_not_found: 404,
  bulk_not_found: 404,
  key_not_found: 404,
  queue_not_found: 404,
  queue_not_empty: 409,
  too_many_queues: 409,
  too_many_schedules: 409,
  too_many_limits: 409,
  too_many_tracks: 409,
  limit_unknown: 422,
  limit_not_found: 404,
  limit_in_use: 409,
  queue_full: 429,
  group_full: 429,
}

const RETRY_AFTER_S = '2'

/** The refusal for an error. The store's own messages are not passed on: they may name hosts, users and statements. */
export function refusalOf(error: unknown): Refusal {
  if (error instanceof Refusal) return error
  if (!isHoldfastError(error)) return new Refusal(500, 'internal', 'an internal error')
  const status = STATUS[error.code]
  if (status !== undefined) {
    const headers = status === 429 ? { 'retry-after': RETRY_AFTER_S } : {}
    return new Refusal(status, error.code, error.message, { details: error.details, headers })
  }
  return new Refusal(503, error.code, STORE_WORDS[error.code] ?? 'the store cannot serve this now', {
    headers: { 'retry-after': RETRY_AFTER_S },
  })
}

const STORE_WORDS: Readonly<Partial<Record<ErrorCode, string>>> = {
  store_unavailable: 'the store does not answer: it is down or too busy; try again',
  store_read_only: 'the store accepts no changes at the moment: it is read-only, or its disk is full',
  store_stale: 'the store has changed hands, and only its old server can be reached; try again',
  store_refused: 'the store refused the request: `holdfast doctor` tells more',
  access_denied: "the store refused the server's login: `holdfast doctor` tells more",
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

/** The request that a problem is about. */
export interface Instance {
  /** Its path, without the query, which may hold secrets. */
  readonly path: string
  readonly requestId: string
}

/** The body of a problem. Details never override the standard fields. */
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
