// What happens to one job, wherever it runs.

import type { JobView } from '../../core/views.js'
import { eventText, readerStream } from '../reader-stream.js'
import { mask, secretPlaces } from '../redact.js'
import { type Route, type RouteRequest, route } from '../route.js'
import { idParams } from '../schemas/basics.js'
import { type Held, lastEventOf, streamJob } from './stream-job.js'

/** Milliseconds, for longer than dates last. */
const TIME_DIGITS = 15

/** Each event that has a time has it as its id, so a reader that connects again gets what came at that millisecond or after it. */
async function jobEvents(request: RouteRequest<{ id: string }>): Promise<Response> {
  const sinceMs = lastEventOf(request, TIME_DIGITS)
  return streamJob(request, 'read', (job, held) => eventsOf(request, job, { ...held, sinceMs }))
}

function eventsOf(
  { context, holdfast }: RouteRequest<{ id: string }>,
  job: JobView,
  { sinceMs, ...held }: Held & { readonly sinceMs: number | null },
): ReadableStream<Uint8Array> {
  const isSecret = secretPlaces(job, context.settings.redact)
  const since = sinceMs === null ? {} : { since: new Date(sinceMs) }
  return readerStream({
    ...held,
    read: (signal) => holdfast.jobEvents({ job: job.id, signal, ...since }),
    eventOf: (event) => {
      if (event.name === 'events.dropped') return eventText(event.name, event)
      const shown =
        'progress' in event ? { ...event, progress: mask('progress', event.progress, isSecret).value } : event
      return eventText(event.name, shown, event.at?.getTime() ?? null)
    },
    endOf: async () => eventText('end', { state: (await holdfast.get(job.id))?.state ?? null }),
  })
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
