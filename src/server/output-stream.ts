// A job's output as server-sent events. Each piece has its end as its id, so a reader that connects again goes on behind the last one it has.

import type { Client } from '../client/client.js'
import type { OutputChunk } from '../core/kept/kept.js'
import { eventText, type ReaderStreamOptions, readerStream } from './reader-stream.js'

export interface OutputStreamOptions extends Pick<ReaderStreamOptions<OutputChunk>, 'signal' | 'isWelcome' | 'onEnd'> {
  readonly id: string
  readonly from: number
}

/** The stream: an event `chunk` for each piece, and `end` when the job has finished. */
export function outputStream(holdfast: Client, options: OutputStreamOptions): ReadableStream<Uint8Array> {
  const { id, from, ...others } = options
  let at = from
  return readerStream<OutputChunk>({
    ...others,
    onEnd: () => options.onEnd(),
    read: (signal) => holdfast.read(id, { from, signal }),
    eventOf: ({ offset, next, text, attempt, at: writtenAt }) => {
      at = next
      return eventText('chunk', { offset, text, attempt, at: writtenAt }, next)
    },
    endOf: async () => {
      const view = await holdfast.get(id)
      return view === null ? null : eventText('end', { offset: at, state: view.state })
    },
  })
}
