// Something that is read piece by piece, as server-sent events: the output of a job, what happens to it. Pieces are read as fast as the client takes them.

import { isHoldfastError } from '../core/errors.js'

const RETRY_MS = 1_000
const PING_MS = 15_000
/** How often it is checked that the caller may still read. */
const RECHECK_MS = 2_000

export interface ReaderStreamOptions<Piece> {
  /** The pieces, until the signal fires or there are no more. */
  readonly read: (signal: AbortSignal) => AsyncIterable<Piece>
  /** A piece as an event. */
  readonly eventOf: (piece: Piece) => string
  /** The last event, after the last piece; null for none. */
  readonly endOf: () => Promise<string | null>
  /** Fires when the client disconnects. */
  readonly signal: AbortSignal
  /** Whether the caller may still read. */
  readonly isWelcome: () => Promise<boolean>
  /** Called once, when the stream ends for any reason. */
  onEnd(): void
}

/** The stream. A client that connects again gets an error of the reading as the answer. */
export function readerStream<Piece>(options: ReaderStreamOptions<Piece>): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder()
  const ending = new AbortController()
  const end = (): void => ending.abort()
  if (options.signal.aborted) end()
  options.signal.addEventListener('abort', end, { once: true })
  const pieces = options.read(ending.signal)[Symbol.asyncIterator]()
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
    const { value, done } = await pieces.next()
    if (done !== true) return options.eventOf(value)
    const last = ending.signal.aborted ? null : await options.endOf()
    over()
    return last ?? ''
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

/** One event. JSON text has no line breaks, so that one data line holds it. */
export function eventText(event: string, data: unknown, id: number | null = null): string {
  return `${id === null ? '' : `id: ${id}\n`}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`
}
