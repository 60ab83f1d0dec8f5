// One stream of server-sent events with a bounded buffer. A client that reads too slowly is disconnected and connects again.

export interface StreamOptions {
  /** Fires when the client disconnects. */
  readonly signal: AbortSignal
  /** Called once, when the stream ends for any reason. */
  onEnd(): void
}

const BUFFER_BYTES_MAX = 1024 * 1024
const RETRY_MS = 3_000

export class EventStream {
  readonly readable: ReadableStream<Uint8Array>
  readonly #encoder = new TextEncoder()
  readonly #onEnd: () => void
  #controller: ReadableStreamDefaultController<Uint8Array> | null = null

  constructor({ signal, onEnd }: StreamOptions) {
    this.#onEnd = onEnd
    this.readable = new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          this.#controller = controller
        },
        cancel: () => this.#over(),
      },
      new ByteLengthQueuingStrategy({ highWaterMark: BUFFER_BYTES_MAX }),
    )
    this.#write(`retry: ${RETRY_MS}\n\n`)
    if (signal.aborted) this.end()
    else signal.addEventListener('abort', () => this.end(), { once: true })
  }

  send(event: string, value: unknown, id?: number): void {
    // JSON text has no line breaks, so that one data line holds it.
    this.#write(`${id === undefined ? '' : `id: ${id}\n`}event: ${event}\ndata: ${JSON.stringify(value)}\n\n`)
  }

  comment(text: string): void {
    this.#write(`: ${text}\n\n`)
  }

  end(): void {
    try {
      this.#controller?.close()
    } catch {
      // The client closed it first.
    }
    this.#over()
  }

  #write(text: string): void {
    const controller = this.#controller
    if (controller === null) return
    controller.enqueue(this.#encoder.encode(text))
    if ((controller.desiredSize ?? 0) <= 0) this.end()
  }

  #over(): void {
    if (this.#controller === null) return
    this.#controller = null
    this.#onEnd()
  }
}
