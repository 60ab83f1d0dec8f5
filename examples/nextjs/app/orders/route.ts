// POST /orders enqueues and answers immediately; GET /orders?id=… says how it stands.

import { isHoldfastError } from 'holdfast'
import { holdfast } from '../../lib/holdfast'
import { type Order, shipOrder } from '../../lib/jobs'

// The driver of the database needs Node; the edge runtime has no sockets.
export const runtime = 'nodejs'

export async function POST(request: Request): Promise<Response> {
  const order = (await request.json()) as Order
  const queue = await holdfast()
  try {
    // A browser that sends the form twice sends the same key.
    const idempotencyKey = request.headers.get('idempotency-key') ?? undefined
    const options = idempotencyKey === undefined ? {} : { idempotencyKey }
    const { id, created } = await queue.enqueue(shipOrder, order, options)
    return Response.json({ id }, { status: created ? 202 : 200 })
  } catch (error) {
    if (isHoldfastError(error, 'store_unavailable')) return new Response('try again soon', { status: 503 })
    throw error
  }
}

export async function GET(request: Request): Promise<Response> {
  const id = new URL(request.url).searchParams.get('id') ?? ''
  const job = await (await holdfast()).get(id)
  if (job === null) return new Response('no such order', { status: 404 })
  return Response.json({ state: job.state, result: job.result })
}
