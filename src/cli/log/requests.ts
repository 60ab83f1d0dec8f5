// What the HTTP server tells, as log lines.

import type { LogLevel } from '../../core/logger.js'
import type { ServerEvent } from '../../server/log.js'

export interface RequestLine {
  readonly level: LogLevel
  readonly facts: Readonly<Record<string, unknown>>
  readonly text: string
}

/** One line for one event. Looking is routine; changes, refusals and failures are not. */
export function requestLine(event: ServerEvent): RequestLine {
  const { name, ...facts } = event
  const named = { event: `http.${name}`, ...facts }
  switch (event.name) {
    case 'request': {
      const { method, route, status, code, who, tookMs } = event
      const by = who === null ? '' : ` by ${who}`
      const why = code === null ? '' : ` ${code}`
      const text = `${method} ${route ?? '(page)'} ${status}${why}${by} in ${Math.round(tookMs)} ms`
      return { level: requestLevel(method, status), facts: { ...named, tookMs: Math.round(tookMs) }, text }
    }
    case 'failed': {
      const { error, requestId } = event
      const text = `request ${requestId} failed: ${error.name}: ${error.message}`
      return { level: 'error', facts: { ...named, error: error.message, stack: error.stack }, text }
    }
    case 'signed_in':
      return { level: 'info', facts: named, text: `signed in: ${event.who}` }
    case 'insecure':
      return { level: 'warn', facts: named, text: event.text }
    case 'listening':
      return { level: 'info', facts: named, text: `listens at ${event.url}` }
  }
}

// Wrong tokens, foreign hosts and floods: what an operator wants to hear of though nothing broke.
// 503 is the store's affair, which is told once by whoever finds out.
const SUSPECT: ReadonlySet<number> = new Set([401, 403, 421, 429, 503])

function requestLevel(method: string, status: number): LogLevel {
  if (SUSPECT.has(status)) return 'warn'
  if (status >= 500) return 'error'
  return method === 'GET' || method === 'HEAD' ? 'debug' : 'info'
}
