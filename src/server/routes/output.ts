// The output of a job.

import { invalidOption } from '../../core/errors.js'
import { outputStream } from '../output-stream.js'
import { type Route, type RouteRequest, route } from '../route.js'
import { idParams } from '../schemas/basics.js'
import * as shapes from '../schemas/jobs.js'
import { can } from '../who.js'
import { visibleJob } from './jobs.js'

// A proxy that buffers the answer would delay it.
const STREAM_HEADERS = { 'content-type': 'text/event-stream', 'x-accel-buffering': 'no' }

async function jobOutput(request: RouteRequest<{ id: string }, { from?: number | undefined }>): Promise<Response> {
  const { context, holdfast, who, http, origin, params, query } = request
  await visibleJob(request, params.id)
  if (http.method === 'HEAD') return new Response(null, { headers: STREAM_HEADERS })
  const from = lastEventOf(http) ?? query.from ?? 0
  const release = context.live.hold(who, origin.client ?? 'unknown')
  try {
    const readable = outputStream(holdfast, {
      id: params.id,
      from,
      signal: http.signal,
      onEnd: release,
      isWelcome: async () => {
        const known = await context.gate.recheck(http, origin)
        return known !== null && can(known, 'read:payload')
      },
    })
    return new Response(readable, { headers: STREAM_HEADERS })
  } catch (error) {
    release()
    throw error
  }
}

/** Where a reader that connects again has stopped: the id of the last event it has. */
function lastEventOf(http: Request): number | null {
  const id = http.headers.get('last-event-id')
  if (id === null || id === '') return null
  if (/^\d{1,10}$/.test(id)) return Number(id)
  throw invalidOption('Last-Event-ID must be the id of an event of this stream', id)
}

export const outputRoutes: readonly Route[] = [
  route('GET /v1/jobs/{id}/output', {
    name: 'jobOutput',
    summary: 'What a job writes, as server-sent events: chunk, end',
    params: idParams,
    query: shapes.outputQuery,
    answers: { 200: { description: 'The stream', schema: null, contentType: 'text/event-stream' } },
    answer: jobOutput,
  }),
]
