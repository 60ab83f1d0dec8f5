// A job's output as server-sent events. Each piece has its end as its id, so a reader that connects again goes on behind the last one it has. Pieces
// are read as fast as the client takes them.

import type { Client } from '../client/client.js'
import { isHoldfastError } from '../core/errors.js'
import type { OutputChunk } from '../core/kept/kept.js'

const RETRY_MS = 1_000
const PING_MS = 15_000
/** How often it is checked that the caller may still read. */
const RECHECK_MS = 2_000

export interface OutputStreamOptions {
  readonly id: string
  readonly from: number
  /** Fires when the client disconnects. */
  readonly signal: AbortSignal
  /** Whether the caller may still read. */
  readonly isWelcome: () => Promise<boolean>
  /** Called once, when the stream ends for any reason. */
  onEnd(): void
}

/** The stream: an event `chunk` for each piece, and `end` when the job has finished. */
export function outputStream(holdfast: Client, options: OutputStreamOptions): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder()
  const ending = new AbortController()
  const end = (): void => ending.abort()
  if (options.signal.aborted) end()
  options.signal.addEventListener('abort', end, { once: true })
  const chunks = holdfast.read(options.id, { from: options.from, signal: ending.signal })[Symbol.asyncIterator]()
  let at = options.from
  let isBegun = false
  let timers: NodeJS.Timeout[] = []
  const over = (): void => {
    if (timers.length === 0) return
    for (const timer of timers) clearInterval(timer)
    timers = []
    end()
    options.onEnd()
  }

  async function next(): Promise<string> {
    if (!isBegun) {
      isBegun = true
      return `retry: ${RETRY_MS}\n\n`
    }
    const { value, done } = await chunks.next()
    if (done !== true) {
      at = value.next
      return eventOf(value)
    }
    const view = ending.signal.aborted ? null : await holdfast.get(options.id)
    over()
    return view === null ? '' : `event: end\ndata: ${JSON.stringify({ offset: at, state: view.state })}\n\n`
  }

  return new ReadableStream<Uint8Array>(
    {
      start(controller) {
        const ping = setInterval(() => {
          if ((controller.desiredSize ?? 0) > 0) controller.enqueue(encoder.encode(': ping\n\n'))
        }, PING_MS)
        const recheck = setInterval(() => {
          options.isWelcome().then(
            (isWelcome) => isWelcome || end(),
            () => {},
          )
        }, RECHECK_MS)
        timers = [ping, recheck]
        for (const timer of timers) timer.unref()
      },
      async pull(controller) {
        try {
          const text = await next()
          if (text !== '') controller.enqueue(encoder.encode(text))
          if (timers.length === 0) controller.close()
        } catch (error) {
          over()
          // The client connects again, and gets the error as an answer then.
          if (isHoldfastError(error)) controller.close()
          else controller.error(error)
        }
      },
      cancel: over,
    },
    { highWaterMark: 1 },
  )
}

function eventOf({ offset, next, text, attempt, at }: OutputChunk): string {
  // JSON text has no line breaks, so that one data line holds it.
  return `id: ${next}\nevent: chunk\ndata: ${JSON.stringify({ offset, text, attempt, at })}\n\n`
}
