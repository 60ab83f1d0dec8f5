// What an error of an HTTP client says about its answer: the status, and how long to wait. Clients keep them in different places; those of
// fetch wrappers, axios, got, undici and the SDKs of large providers are known here.

/** A provider that asks for more is misread, or is away for good: it is asked again after this time. */
export const WAIT_MS_MAX = 86_400_000

/** Looks only at own and inherited fields; the caller guards against those that throw. */
type Loose = Readonly<Record<string, unknown>>

/** The status of the answer an error is about, or null. */
export function statusOf(error: unknown): number | null {
  const { status, statusCode, response } = loose(error)
  const own = [status, statusCode, loose(response).status, loose(response).statusCode]
  return (own.find((value) => typeof value === 'number') as number | undefined) ?? null
}

/** Whether an error says that the other side is overloaded: refused for load, or failing. */
export function isOverload(error: unknown): boolean {
  const status = statusOf(error)
  return status === 429 || (status !== null && status >= 500)
}

/** How long the answer asks to wait, in milliseconds, or null: a `retryAfter` in seconds, or the header Retry-After. */
export function retryAfterMs(error: unknown): number | null {
  const { retryAfter, headers, response } = loose(error)
  const found = [retryAfter, header(headers), header(loose(response).headers)].find(
    (value) => value !== undefined && value !== null,
  )
  return found === undefined ? null : read(found)
}

function header(headers: unknown): unknown {
  const { get } = loose(headers)
  if (typeof get === 'function') return (headers as { get(name: string): unknown }).get('retry-after')
  const fields = loose(headers)
  return fields['retry-after'] ?? fields['Retry-After']
}

function read(value: unknown): number | null {
  const text = typeof value === 'number' ? String(value) : value
  if (typeof text !== 'string') return null
  const seconds = /^\s*\d{1,9}(\.\d{1,6})?\s*$/.test(text) ? Number(text) : null
  return seconds === null ? null : Math.min(WAIT_MS_MAX, Math.ceil(seconds * 1_000))
}

function loose(value: unknown): Loose {
  return typeof value === 'object' && value !== null ? (value as Loose) : {}
}
