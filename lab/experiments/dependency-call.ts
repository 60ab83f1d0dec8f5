// The job that calls a dependency over HTTP, as a handler of a service would.

import { Agent, get } from 'node:http'
import { defineJob } from '../../src/client/define-job.js'
import type { Handler, JobDefinition } from '../../src/core/definition.js'

/** The job that calls. Its payload says nothing. */
export const call: JobDefinition<object, object> = defineJob<object>('call')

/** An answer that is not 200: workers read its status, as they do with the errors of HTTP clients. */
class CallFailed extends Error {
  override readonly name = 'CallFailed'
  readonly status: number

  constructor(status: number) {
    super(`the dependency answered ${status}`)
    this.status = status
  }
}

/** How long a refused job waits before it is tried again. Only the job waits: how many may run is for the limit to find out. */
const REFUSED_MS = 250

/** The handler of jobs that call. A 429 costs no attempt. */
export function callHandler(url: string): Handler {
  const agent = new Agent({ keepAlive: true })
  return call.handle(async (_, ctx) => {
    const status = await statusOf(url, agent, ctx.signal)
    if (status === 429) ctx.rateLimited(REFUSED_MS, 'job')
    if (status !== 200) throw new CallFailed(status)
  })
}

function statusOf(url: string, agent: Agent, signal: AbortSignal): Promise<number> {
  return new Promise((resolve, reject) => {
    const request = get(url, { agent, signal }, (response) => {
      // Read to its end, so that the connection can be used again.
      response.resume()
      response.once('end', () => resolve(response.statusCode!))
    })
    request.once('error', reject)
  })
}
