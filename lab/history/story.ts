// One job's timeline as text: what the store did to it and what processes recorded about it, in order of time.

import { isFinished } from '../../src/core/states.js'
import type { HistoryEvent } from './events.js'
import type { Verdict } from './verdict.js'

const LINES_MAX = 200

/** The job of a violation with the fewest events, or null when no violation names one. */
export function smallestOffender(events: Iterable<HistoryEvent>, verdict: Verdict): string | null {
  const sizes = new Map<string, number>()
  for (const { job } of verdict.violations) if (job !== null) sizes.set(job, 0)
  for (const event of events) {
    const job = 'job' in event ? event.job : null
    const size = job === null ? undefined : sizes.get(job)
    if (size !== undefined) sizes.set(job!, size + 1)
  }
  const [first] = [...sizes].sort(([, a], [, b]) => a - b)
  return first?.[0] ?? null
}

/** The job's timeline, at most LINES_MAX lines. Times of processes are by their own clocks, and marked so. */
export function writeStory(events: Iterable<HistoryEvent>, job: string): string {
  const own = ownEvents(events, job)
  const beginning = own.find(({ at }) => at !== null)?.at ?? 0
  const lines = own.map(({ event, at }) => lineOf(event, at === null ? null : at - beginning))
  const cut =
    lines.length > LINES_MAX ? [...lines.slice(0, LINES_MAX), `… and ${lines.length - LINES_MAX} more`] : lines
  return [`job ${job}`, ...cut].join('\n')
}

interface Placed {
  readonly event: HistoryEvent
  readonly at: number | null
  readonly order: number
}

function ownEvents(events: Iterable<HistoryEvent>, job: string): Placed[] {
  const placed: Placed[] = []
  const keys = new Set<string>()
  const invoked: HistoryEvent[] = []
  for (const event of events) {
    if (event.ev === 'enqueue.invoke') invoked.push(event)
    if (!('job' in event) || event.job !== job) continue
    placed.push(place(event))
    const key = 'key' in event ? event.key : null
    if (key !== null) keys.add(key)
  }
  for (const event of invoked) if ('key' in event && keys.has(event.key!)) placed.push(place(event))
  const timeOf = ({ event, at }: Placed) =>
    event.ev === 'final' ? Number.POSITIVE_INFINITY : (at ?? Number.NEGATIVE_INFINITY)
  return placed.sort((a, b) => {
    const difference = timeOf(a) - timeOf(b)
    return Number.isNaN(difference) || difference === 0 ? a.order - b.order : difference
  })
}

function place(event: HistoryEvent): Placed {
  if ('at' in event) return { event, at: event.at, order: event.order }
  return { event, at: 'wall' in event ? (event.wall ?? null) : null, order: -1 }
}

function lineOf(event: HistoryEvent, sinceMs: number | null): string {
  const time = sinceMs === null ? ''.padStart(12) : `${sinceMs >= 0 ? '+' : ''}${sinceMs.toFixed(1)}`.padStart(12)
  const who = 'process' in event ? `~ ${event.process}/${event.processRun}` : '= store'
  return `${time} ms  ${who.padEnd(14)} ${textOf(event)}`
}

function textOf(event: HistoryEvent): string {
  switch (event.ev) {
    case 'stored': {
      const after = event.after.length > 0 ? ` after ${event.after.join(', ')}` : ''
      return `stored as ${event.state}: ${event.type} in ${event.queue}, priority ${event.priority}, key ${event.key}${after}`
    }
    case 'claimed':
      return `claimed by ${event.worker}, fence ${event.fence}, attempt ${event.attempt}, leased for ${(event.leasedUntil - event.at).toFixed(0)} ms`
    case 'extended':
      return `lease of fence ${event.fence} extended by ${(event.leasedUntil - event.at).toFixed(0)} ms`
    case 'settled': {
      const reason = event.reason === null ? '' : ` (${event.reason})`
      const next = event.notBefore === null ? '' : `, again in ${(event.notBefore - event.at).toFixed(0)} ms`
      const counted = isFinished(event.to) ? '' : `, ${event.attempts} attempts and ${event.crashes} crashes counted`
      return `${event.rescued ? 'rescued from' : 'settled by'} fence ${event.fence}: ${event.to}${reason}${counted}${next}`
    }
    case 'promoted':
      return `promoted to ${event.to ?? 'ready'}`
    case 'operated':
      return `${event.action}: ${event.to}`
    case 'effect':
      return `effect ${event.inTransaction ? 'in its transaction' : 'outside'}, fence ${event.fence}`
    case 'final':
      return `at the end: ${event.state}${event.reason === null ? '' : ` (${event.reason})`}, ${event.attempts} attempts`
    case 'enqueue.invoke':
      return `enqueue ${event.key} asked${event.idempotencyKey === null ? '' : `, idempotency key ${event.idempotencyKey}`}`
    case 'enqueue.ok':
      return `enqueue ${event.key} accepted${event.created === false ? ': already there' : ''}`
    case 'started':
    case 'ended':
    case 'lost_lease':
      return `handler ${event.ev.replace('_', ' ')}, fence ${event.fence}, attempt ${event.attempt}`
    case 'effect.begin':
      return `handler begins an effect, fence ${event.fence}`
    default:
      return event.ev
  }
}
