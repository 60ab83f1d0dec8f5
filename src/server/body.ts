// Reads request bodies, with limits on size, time and nesting.

import { isDeeperThan } from '../core/json.js'
import { Refusal } from './problem.js'

interface BodyLimits {
  readonly bytesMax: number
  readonly depthMax: number
  readonly timeoutMs: number
}

/** Limits the bytes of all bodies in memory together, so that many large requests cannot use up the memory. */
export class BodyBudget {
  readonly #bytesMax: number
  #taken = 0

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  take(bytes: number): void {
    if (this.#taken + bytes > this.#bytesMax) {
      throw new Refusal(503, 'too_many_requests', 'too many large requests: try again', {
        headers: { 'retry-after': '1', connection: 'close' },
      })
    }
    this.#taken += bytes
  }

  give(bytes: number): void {
    this.#taken -= bytes
  }
}

/** The JSON value of a body; undefined when there is none. Raises 400, 408, 413, 415 or 503. */
export async function readJson(request: Request, limits: BodyLimits, budget: BodyBudget): Promise<unknown> {
  if (request.headers.has('content-encoding')) {
    throw new Refusal(415, 'unsupported_media_type', 'compressed bodies are not supported: send it uncompressed')
  }
  const length = Number(request.headers.get('content-length') ?? 0)
  if (length > limits.bytesMax) throw tooLarge(limits.bytesMax)
  if (request.body === null) return undefined
  const text = await readText(request.body, limits, budget)
  if (text.trim() === '') return undefined
  if (isDeeperThan(limits.depthMax, text)) {
    throw new Refusal(400, 'invalid_json', `the body is nested deeper than ${limits.depthMax} levels`)
  }
  try {
    return JSON.parse(text)
  } catch {
    // The parser's message quotes the body, which may hold secrets.
    throw new Refusal(400, 'invalid_json', 'the body is not JSON')
  }
}

async function readText(
  body: ReadableStream<Uint8Array>,
  { bytesMax, timeoutMs }: BodyLimits,
  budget: BodyBudget,
): Promise<string> {
  const reader = body.getReader()
  const chunks: Uint8Array[] = []
  let bytes = 0
  let isLate = false
  const timer = setTimeout(() => {
    isLate = true
    reader.cancel().catch(() => {})
  }, timeoutMs)
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) break
      budget.take(value.byteLength)
      bytes += value.byteLength
      if (bytes > bytesMax) throw tooLarge(bytesMax)
      chunks.push(value)
    }
    if (isLate) throw tooSlow()
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(chunks, bytes))
  } catch (error) {
    reader.cancel().catch(() => {})
    if (error instanceof Refusal) throw error
    if (isLate) throw tooSlow()
    throw new Refusal(400, 'invalid_json', 'the body is incomplete or not UTF-8')
  } finally {
    clearTimeout(timer)
    budget.give(bytes)
  }
}

function tooLarge(bytesMax: number): Refusal {
  return new Refusal(413, 'body_too_large', `the body is over the limit of ${bytesMax} bytes`, {
    // Do not read the rest.
    headers: { connection: 'close' },
    details: { bytesMax },
  })
}

function tooSlow(): Refusal {
  return new Refusal(408, 'request_timeout', 'the body took too long to arrive', { headers: { connection: 'close' } })
}
