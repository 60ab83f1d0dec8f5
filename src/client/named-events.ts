// Events by name, and four more that are about what became of a job: those who report errors want the dead ones with what was thrown.

import { HoldfastError, invalidOption } from '../core/errors.js'
import type { HoldfastEvent } from '../core/events.js'
import { JOB_EVENT_NAMES, LEVELS } from '../core/logger.js'
import type { DeadReason } from '../core/states.js'
import type { Events } from './events.js'

interface AboutJob<Name extends string> {
  readonly name: Name
  readonly id: string
  readonly type: string
  readonly queue: string
}

/** What a worker of this process, or its upkeep, made of a job. */
export type JobOutcomeEvent =
  | AboutJob<'job.succeeded'>
  | AboutJob<'job.cancelled'>
  | (AboutJob<'job.retrying'> & { readonly delayMs: number | null; readonly error: Error | null })
  | (AboutJob<'job.dead'> & { readonly reason: DeadReason | null; readonly error: Error | null })

type AnyEvent = HoldfastEvent | JobOutcomeEvent

/** The names that can be listened to. */
export type EventName = AnyEvent['name']

/** The event of a name. */
export type EventNamed<Name extends EventName> = Extract<AnyEvent, { readonly name: Name }>

const OUTCOMES: readonly string[] = ['job.succeeded', 'job.cancelled', 'job.retrying', 'job.dead']
const KNOWN: ReadonlySet<string> = new Set([...Object.keys(LEVELS), ...JOB_EVENT_NAMES, ...OUTCOMES])

/** Calls the listener for the events of these names. Returns the function that ends it. */
export function listenByName<Name extends EventName>(
  events: Events,
  names: Name | readonly Name[],
  listener: (event: EventNamed<Name>) => void,
): () => void {
  const wanted = new Set<string>(Array.isArray(names) ? names : [names])
  for (const name of wanted) {
    if (!KNOWN.has(name)) throw invalidOption(`on takes the name of an event, such as 'job.dead', or several`, name)
  }
  if (typeof listener !== 'function') throw invalidOption('a listener must be a function', listener)
  const receive = (event: HoldfastEvent) => {
    if (wanted.has(event.name)) listener(event as EventNamed<Name>)
    if (event.name !== 'job.settled' && event.name !== 'job.rescued') return
    const outcome = outcomeOf(event)
    if (outcome !== null && wanted.has(outcome.name)) listener(outcome as EventNamed<Name>)
  }
  events.on(receive)
  return () => events.off(receive)
}

function outcomeOf(event: Extract<HoldfastEvent, { name: 'job.settled' | 'job.rescued' }>): JobOutcomeEvent | null {
  const { id, type, queue, state } = event
  const about = { id, type, queue }
  const error = event.name === 'job.settled' ? (event.error ?? null) : workerLost(event)
  if (state === 'succeeded') return { name: 'job.succeeded', ...about }
  if (state === 'cancelled') return { name: 'job.cancelled', ...about }
  if (state === 'dead') return { name: 'job.dead', ...about, reason: event.reason as DeadReason | null, error }
  const delayMs = event.name === 'job.settled' ? event.delayMs : null
  return state === 'retrying' ? { name: 'job.retrying', ...about, delayMs, error } : null
}

function workerLost({ id, worker }: Extract<HoldfastEvent, { name: 'job.rescued' }>): HoldfastError {
  return new HoldfastError('worker_lost', `worker ${worker} was lost while it ran job ${id}`, {
    details: { id, worker },
  })
}
