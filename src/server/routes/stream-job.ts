// A stream about one job: held like every open stream, and ended when the caller may not see the job any more.

import { invalidOption } from '../../core/errors.js'
import type { JobView } from '../../core/views.js'
import type { ReaderStreamOptions } from '../reader-stream.js'
import type { RouteRequest } from '../route.js'
import { can, maySee } from '../who.js'
import { visibleJob } from './jobs.js'

// A proxy that buffers the answer would delay it.
const HEADERS = { 'content-type': 'text/event-stream', 'x-accel-buffering': 'no' }

/** What the stream is given: when it ends, and who may go on reading. */
export type Held = Pick<ReaderStreamOptions<unknown>, 'signal' | 'isWelcome' | 'onEnd'>

export async function streamJob(
  request: RouteRequest<{ id: string }, unknown>,
  needs: Parameters<typeof can>[1],
  open: (job: JobView, held: Held) => ReadableStream<Uint8Array>,
): Promise<Response> {
  const { context, who, http, origin, params } = request
  const job = await visibleJob(request, params.id)
  if (http.method === 'HEAD') return new Response(null, { headers: HEADERS })
  const release = context.live.hold(who, origin.client ?? 'unknown')
  const isWelcome = async () => {
    const known = await context.gate.recheck(http, origin)
    return known !== null && can(known, needs) && maySee(known, job.queue)
  }
  try {
    return new Response(open(job, { signal: http.signal, onEnd: release, isWelcome }), { headers: HEADERS })
  } catch (error) {
    release()
    throw error
  }
}

/** The id of the last event that a reader has who connects again; null for none. */
export function lastEventOf({ http }: Pick<RouteRequest, 'http'>, digitsMax: number): number | null {
  const id = http.headers.get('last-event-id')
  if (id === null || id === '') return null
  if (/^\d+$/.test(id) && id.length <= digitsMax) return Number(id)
  throw invalidOption('Last-Event-ID must be the id of an event of this stream', id)
}
