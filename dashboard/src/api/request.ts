// One request to the API. A failure is an ApiError with the server's code. Outages and lost sessions are reported to health.ts.

import { parseExact } from './exact-json.js'
import { isSignedIn, reportAnswer, reportOutage } from './health.js'
import { apiUrl } from './place.js'

/** A refused or failed request. */
export class ApiError extends Error {
  override readonly name = 'ApiError'
  /** 0 when no answer came at all. */
  readonly status: number
  readonly code: string | null
  /** Further fields of the answer, such as the position in a filter. */
  readonly details: Readonly<Record<string, unknown>>

  constructor(status: number, code: string | null, message: string, details: Readonly<Record<string, unknown>> = {}) {
    super(message)
    this.status = status
    this.code = code
    this.details = details
  }
}

export interface RequestOptions {
  readonly method?: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** Sent as JSON. */
  readonly body?: unknown
}

/** Without a limit, a request that hangs would show a spinner forever. The server answers reads within two seconds. */
const PATIENCE_MS = 20_000

/** Sends a request and returns the JSON of the answer. Raises ApiError. */
export async function request<T>(path: string, options: RequestOptions = {}): Promise<T> {
  const response = await send(path, options)
  const text = await readText(response)
  if (!response.ok) throw await refusal(response.status, text)
  reportAnswer()
  return (text === '' ? null : parseExact(text)) as T
}

/** Sends a change. It is always JSON, even without a body: the server accepts nothing else from a browser. */
export function change<T = unknown>(
  method: 'POST' | 'PUT' | 'PATCH' | 'DELETE',
  path: string,
  body: unknown = {},
): Promise<T> {
  return request<T>(path, { method, body })
}

async function send(path: string, options: RequestOptions): Promise<Response> {
  const patience = AbortSignal.timeout(PATIENCE_MS)
  try {
    return await fetch(apiUrl(path), {
      method: options.method ?? 'GET',
      headers: {
        accept: 'application/json',
        ...(options.body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(options.body === undefined ? {} : { body: JSON.stringify(options.body) }),
      credentials: 'same-origin',
      cache: 'no-store',
      signal: patience,
    })
  } catch {
    const text = patience.aborted ? `no answer within ${PATIENCE_MS / 1_000} s` : 'the server does not answer'
    reportOutage('server', text, null)
    throw new ApiError(0, null, text)
  }
}

async function readText(response: Response): Promise<string> {
  try {
    return await response.text()
  } catch {
    throw new ApiError(response.status, null, 'the answer broke off')
  }
}

async function refusal(status: number, text: string): Promise<ApiError> {
  const problem = readProblem(text)
  const code = typeof problem.code === 'string' ? problem.code : null
  const message = firstText(problem.detail, problem.title) ?? `the server answered ${status}`
  if (status === 401) isSignedIn.set(false)
  // A gateway's own 502 or 504 means that our server did not answer it.
  else if (status === 502 || status === 504) reportOutage('server', message, code)
  else if (status === 503 && code !== 'too_many_requests') reportOutage('store', message, code)
  else reportAnswer()
  return new ApiError(status, code, message, problem)
}

function readProblem(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
  } catch {
    return {}
  }
}

function firstText(...values: readonly unknown[]): string | null {
  for (const value of values) if (typeof value === 'string' && value !== '') return value
  return null
}

/** What to show of something thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
