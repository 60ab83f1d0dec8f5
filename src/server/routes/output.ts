// The output of a job.

import { outputStream } from '../output-stream.js'
import { type Route, type RouteRequest, route } from '../route.js'
import { idParams } from '../schemas/basics.js'
import * as shapes from '../schemas/jobs.js'
import { lastEventOf, streamJob } from './stream-job.js'

/** Where a piece begins: not more than a job may write. */
const OFFSET_DIGITS = 10

async function jobOutput(request: RouteRequest<{ id: string }, { from?: number | undefined }>): Promise<Response> {
  const from = lastEventOf(request, OFFSET_DIGITS) ?? request.query.from ?? 0
  return streamJob(request, 'read:payload', ({ id }, held) => outputStream(request.holdfast, { id, from, ...held }))
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
