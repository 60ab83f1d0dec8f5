// What happens to one job, wherever it runs.

import { invalidOption } from '../../core/errors.js'
import { eventText, readerStream } from '../reader-stream.js'
import { mask, secretPlaces } from '../redact.js'
import { type Route, type RouteRequest, route } from '../route.js'
import { idParams } from '../schemas/basics.js'
import { can, maySee } from '../who.js'
import { visibleJob } from './jobs.js'

// A proxy that buffers the answer would delay it.
const STREAM_HEADERS = { 'content-type': 'text/event-stream', 'x-accel-buffering': 'no' }

/** Each event that has a time has it as its id, so a reader that connects again gets what came at that millisecond or after it. */
async function jobEvents(request: RouteRequest<{ id: string }>): Promise<Response> {
  const { context, holdfast, who, http, origin, params } = request
  const job = await visibleJob(request, params.id)
  if (http.method === 'HEAD') return new Response(null, { headers: STREAM_HEADERS })
  const since = lastTimeOf(http)
  const isSecret = secretPlaces(job, context.settings.redact)
  const release = context.live.hold(who, origin.client ?? 'unknown')
  try {
    const readable = readerStream({
      read: (signal) => holdfast.jobEvents({ job: job.id, signal, ...(since === null ? {} : { since }) }),
      eventOf: (event) => {
        if (event.name === 'events.dropped') return eventText(event.name, event)
        const shown =
          'progress' in event ? { ...event, progress: mask('progress', event.progress, isSecret).value } : event
        return eventText(event.name, shown, event.at?.getTime() ?? null)
      },
      endOf: async () => eventText('end', { state: (await holdfast.get(job.id))?.state ?? null }),
      signal: http.signal,
      onEnd: release,
      isWelcome: async () => {
        const known = await context.gate.recheck(http, origin)
        return known !== null && can(known, 'read') && maySee(known, job.queue)
      },
    })
    return new Response(readable, { headers: STREAM_HEADERS })
  } catch (error) {
    release()
    throw error
  }
}

/** When the last event happened that a reader has who connects again. */
function lastTimeOf(http: Request): Date | null {
  const id = http.headers.get('last-event-id')
  if (id === null || id === '') return null
  if (/^\d{1,15}$/.test(id)) return new Date(Number(id))
  throw invalidOption('Last-Event-ID must be the id of an event of this stream', id)
}

export const jobEventRoutes: readonly Route[] = [
  route('GET /v1/jobs/{id}/events', {
    name: 'jobEvents',
    summary: 'What happens to a job, as server-sent events, from its enqueue to its end',
    params: idParams,
    answers: { 200: { description: 'The stream', schema: null, contentType: 'text/event-stream' } },
    answer: jobEvents,
  }),
]
