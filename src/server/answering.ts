// What happens to every request: it gets an id, its host and origin are checked, it is answered or refused, the answer gets its
// headers, and the log a line.

import { randomUUID } from 'node:crypto'
import type { Hono } from 'hono'
import { asError } from '../core/errors.js'
import type { HostCheck } from '../core/hosts.js'
import type { RequestLog } from './app.js'
import { checkOrigin } from './cross-site.js'
import type { Origin } from './gate.js'
import type { Settings } from './options.js'
import { problemResponse, Refusal, refusalOf } from './problem.js'
import { secured } from './security-headers.js'

/** Where a request came from, and what it is for. */
export interface Arrival extends Origin {
  /** The path below the base path; null for one that is not below it. */
  readonly path: string | null
  /** The port that was connected to; null where it is not known. */
  readonly localPort: number | null
}

interface AnsweringParts {
  readonly app: Hono<{ Bindings: RequestLog }>
  readonly settings: Settings
  readonly isOurHost: HostCheck
}

export class Answering {
  readonly #parts: AnsweringParts

  constructor(parts: AnsweringParts) {
    this.#parts = parts
  }

  /** Answers a request. Never rejects. */
  async answer(request: Request, arrival: Arrival): Promise<Response> {
    const { app } = this.#parts
    const beganMs = performance.now()
    const { path, localPort: _, ...origin } = arrival
    const requestId = randomUUID()
    const entry: RequestLog = { requestId, path: path ?? '/', origin, route: null, who: null }
    let code: string | null = null
    let response: Response
    try {
      this.#check(request, arrival)
      response = await app.fetch(request, entry)
    } catch (error) {
      const refusal = refusalOf(error)
      code = refusal.code
      response = problemResponse(refusal, { path: entry.path, requestId })
      if (refusal.status === 500) this.#log({ name: 'failed', requestId, route: entry.route, error: asError(error) })
    }
    const tookMs = performance.now() - beganMs
    const { status } = response
    this.#log({
      name: 'request',
      requestId,
      route: entry.route,
      method: request.method,
      status,
      code,
      who: entry.who,
      tookMs,
    })
    return secured(response, requestId)
  }

  /** A refusal as an answer, for a request that could not be read. */
  refuse(refusal: Refusal, path: string = '/'): Response {
    const requestId = randomUUID()
    return secured(problemResponse(refusal, { path, requestId }), requestId)
  }

  #check(request: Request, arrival: Arrival): void {
    const { host, localPort, path } = arrival
    this.checkHost(host, localPort)
    checkOrigin(request, arrival)
    if (path === null)
      throw new Refusal(404, 'not_found', 'there is nothing here: the server is mounted under another path')
  }

  /** Raises 421 for a Host that is not one of ours. */
  checkHost(host: string | null, localPort: number | null): void {
    if (this.#parts.isOurHost(host, localPort)) return
    throw new Refusal(
      421,
      'misdirected',
      'this server does not answer to that Host: list its names in the option `hosts`',
    )
  }

  #log(event: Parameters<Settings['log']>[0]): void {
    try {
      this.#parts.settings.log(event)
    } catch {
      // A failing log must not fail the request.
    }
  }
}

/** The path below the base, or null for one that is not below it. */
export function pathBelow(basePath: string, path: string): string | null {
  if (basePath === '') return path
  if (path === basePath) return '/'
  return path.startsWith(`${basePath}/`) ? path.slice(basePath.length) : null
}
