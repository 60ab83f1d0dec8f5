// Events as an async iterator: what happens in this process, one after the other, until its reader has had enough.

import { checkKeys, checkName, checkWhole } from '../core/check.js'
import { HoldfastError, invalidOption } from '../core/errors.js'
import type { Events } from './events.js'
import { type EventName, type EventNamed, listenByName } from './named-events.js'

export interface EventsOptions<Name extends EventName = EventName> {
  /** Which events. All that pass count: an event without a queue or a type passes only where none is asked for. */
  readonly filter: {
    /** The names of the events, at least one. */
    readonly names: Name | readonly Name[]
    readonly queues?: readonly string[]
    readonly types?: readonly string[]
  }
  /** Ends the iteration, without an error. */
  readonly signal?: AbortSignal
  /** How many events may wait for a reader that is slower than they come, from 1 to 1,000,000. Default 10,000. One more ends the iteration
   *  with `buffer_full`. */
  readonly bufferMax?: number
}

const BUFFER_MAX_DEFAULT = 10_000
const NAMES_MAX = 1_000

/** The events from now on: those that come before the first `next()` are kept as well. */
export function iterateEvents<Name extends EventName>(
  events: Events,
  options: EventsOptions<Name>,
): AsyncIterableIterator<EventNamed<Name>> {
  checkKeys('events', options, ['filter', 'signal', 'bufferMax'])
  const { filter, signal } = options
  checkKeys('filter', filter, ['names', 'queues', 'types'])
  const bufferMax = checkWhole('bufferMax', options.bufferMax ?? BUFFER_MAX_DEFAULT, 1, 1_000_000)
  if (signal !== undefined && !(signal instanceof AbortSignal))
    throw invalidOption('signal must be an AbortSignal', signal)
  const [queues, types] = [checkNames('queues', filter.queues), checkNames('types', filter.types)]
  const passes = (event: object): boolean => {
    const { queue, type } = event as { readonly queue?: string; readonly type?: string }
    return (queues === null || queues.has(queue ?? '')) && (types === null || types.has(type ?? ''))
  }

  const waiting: EventNamed<Name>[] = []
  let isOver = false
  let failure: HoldfastError | null = null
  let wake: () => void = () => {}
  const end = () => {
    isOver = true
    off()
    signal?.removeEventListener('abort', end)
    wake()
  }
  const off = listenByName(events, filter.names, (event) => {
    if (isOver || !passes(event)) return
    if (waiting.length >= bufferMax) {
      failure = new HoldfastError(
        'buffer_full',
        `${bufferMax} events wait for their reader, which is slower than they come: read faster, ask for fewer, or raise bufferMax`,
      )
      end()
      return
    }
    waiting.push(event)
    wake()
  })
  if (signal?.aborted) end()
  else signal?.addEventListener('abort', end, { once: true })

  return {
    async next() {
      while (waiting.length === 0 && !isOver) {
        await new Promise<void>((resolve) => {
          wake = resolve
        })
      }
      const value = waiting.shift()
      if (value !== undefined) return { done: false, value }
      const error = failure
      failure = null
      if (error !== null) throw error
      return { done: true, value: undefined }
    },
    async return() {
      waiting.length = 0
      end()
      return { done: true, value: undefined }
    },
    [Symbol.asyncIterator]() {
      return this
    },
  }
}

function checkNames(what: string, names: unknown): ReadonlySet<string> | null {
  if (names === undefined) return null
  if (!Array.isArray(names) || names.length === 0 || names.length > NAMES_MAX) {
    throw invalidOption(`filter.${what} must be an array of 1 to ${NAMES_MAX} names`, names)
  }
  return new Set(names.map((name) => checkName(what, name)))
}
