// Checks a history against the invariants I1 to I22. Jobs are independent, so one pass over the store's events in their order,
// with the state of each job at hand, is enough. Invariants between jobs (queues, groups, keys, schedules) are checked in the same
// pass.

import { checkDays, checkEnds, checkRescueTime, countedOf } from './ends.js'
import type { FaultRecord, FinalDay, HistoryEvent, ProcessEvent, RunBegun, StoreEvent } from './events.js'
import { Flow } from './flow.js'
import { Handlers } from './handlers.js'
import { Lateness } from './lateness.js'
import { isClaimUndone, type Life, newLife, newReading, type Reading, report } from './life.js'
import { Lines } from './lines.js'
import { Promises } from './promises.js'
import { settled } from './settled.js'
import { checkParents, claimed, extended, operated, promoted, shown } from './steps.js'
import { Ticks } from './ticks.js'
import { spreadOf, type Verdict } from './verdict.js'

/** Checks a history. Events may come in any order, but each witness's records in the order it wrote them. O(n log n). */
export function checkHistory(events: Iterable<HistoryEvent>): Verdict {
  const parts = sortOut(events)
  const reading = newReading(parts.run)
  reading.counts.events = parts.count
  const lines = new Lines(reading)
  const ticks = new Ticks(reading)
  const lateness = new Lateness(reading)
  const flow = new Flow(reading, parts)
  readStore(reading, parts.store, { lines, ticks, lateness, flow })
  const faults = readProcesses(reading, parts.processEvents, { lateness, flow })
  ticks.check()
  checkEnds(reading)
  checkDays(reading, parts.days)
  // Last, because a lost job is also late.
  lateness.check((life) => flow.bounds(life))
  flow.check(lateness.ability)
  return {
    ok: reading.violationCount === 0,
    counted: countedOf(reading, faults),
    violations: reading.violations,
    violationCount: reading.violationCount,
    counts: reading.counts,
    redeliveries: reading.redeliveries,
    rescue: spreadOf(reading.rescues),
    recovery: spreadOf(reading.recoveries),
    inversions: lines.inversions,
  }
}

interface Parts {
  readonly run: RunBegun | null
  readonly store: StoreEvent[]
  readonly processEvents: ProcessEvent[]
  readonly days: FinalDay[]
  readonly count: number
}

function sortOut(events: Iterable<HistoryEvent>): Parts {
  const store: StoreEvent[] = []
  const processEvents: ProcessEvent[] = []
  const days: FinalDay[] = []
  let run: RunBegun | null = null
  let count = 0
  for (const event of events) {
    count++
    if (event.ev === 'run') run = event
    else if (event.ev === 'final day') days.push(event)
    else if ('process' in event) processEvents.push(event)
    else store.push(event)
  }
  // Final states have no order of their own, so they come last.
  const placeOf = (event: StoreEvent) => (event.ev === 'final' ? Number.POSITIVE_INFINITY : event.order)
  const isSorted = store.every((event, index) => index === 0 || placeOf(store[index - 1]!) <= placeOf(event))
  if (!isSorted) store.sort((a, b) => compare(placeOf(a), placeOf(b)))
  return { run, store, processEvents, days, count }
}

function compare(a: number, b: number): number {
  return a < b ? -1 : a > b ? 1 : 0
}

function readStore(
  reading: Reading,
  events: readonly StoreEvent[],
  { lines, ticks, lateness, flow }: { lines: Lines; ticks: Ticks; lateness: Lateness; flow: Flow },
): void {
  // A takeover is known by the first write after it, and what it undid came before.
  for (const event of events) if (event.ev === 'undone') reading.undone.push(event)
  reading.counts.takeovers = reading.undone.length
  for (const event of events) {
    if (event.ev !== 'final') ticks.saw(event.at)
    if (event.ev === 'tick') {
      ticks.fired(event)
      continue
    }
    if (event.ev === 'undone') continue
    if (event.ev === 'queue') {
      lateness.paused(event.queue, event.at, event.isPaused)
      continue
    }
    // What flow control allowed is known before the jobs are followed.
    if (event.ev === 'limit' || event.ev === 'groups' || event.ev === 'group') continue
    lines.before(event)
    const life = lifeOf(reading, event)
    if (life === null) continue
    if (event.ev === 'settled' && event.rescued && life.lease !== null) {
      checkRescueTime(reading, life.lease.leasedUntil, event)
    }
    flow.before(life, event)
    step(reading, life, event)
    if (event.ev === 'final' || event.ev === 'extended') continue
    lateness.after(life, event)
    if (event.ev === 'effect') continue
    lines.after(life, event)
    flow.after(life, event)
    if (event.ev === 'operated' && event.action === 'requeue') lines.requeued(life, event.at)
  }
  lines.flush()
}

type OfJob = Exclude<StoreEvent, { ev: 'tick' | 'queue' | 'undone' | 'limit' | 'groups' | 'group' }>

/** The job's life that an event belongs to; null when the event repeats a beginning. */
function lifeOf(reading: Reading, event: OfJob): Life | null {
  const known = reading.lives.get(event.job)
  if (event.ev === 'stored' && known !== undefined) {
    report(reading, 'I2', event.job, `was stored again at ${shown(event.at)}`)
    return null
  }
  if (known !== undefined) return known
  // A handler ran under a claim of which the store knows nothing, of a job that went with it or is enqueued once more. If the job had been
  // accepted, it is missed (promises.ts).
  if (event.ev === 'effect' && isClaimUndone(reading, event.fence)) return null
  const life = newLife(event.job, event.ev === 'stored' ? event : null)
  if (event.ev !== 'stored' && event.ev !== 'final') {
    report(reading, 'I2', event.job, `${event.ev} at ${shown(event.at)}, and was never stored`)
  }
  reading.lives.set(event.job, life)
  return life
}

function step(reading: Reading, life: Life, event: OfJob): void {
  switch (event.ev) {
    case 'stored':
      // If all parents had finished before, the job was never blocked.
      if (event.state === 'ready' || event.state === 'scheduled') checkParents(reading, life)
      return
    case 'claimed':
      claimed(reading, life, event)
      return
    case 'extended':
      extended(reading, life, event)
      return
    case 'settled':
      settled(reading, life, event)
      return
    case 'promoted':
      promoted(reading, life, event)
      return
    case 'operated':
      operated(reading, life, event)
      return
    case 'effect':
      life.effects.push(event)
      return
    case 'final':
      life.final = event
      return
  }
}

function readProcesses(
  reading: Reading,
  events: readonly ProcessEvent[],
  { lateness, flow }: { lateness: Lateness; flow: Flow },
): FaultRecord[] {
  const promises = new Promises(reading)
  const handlers = new Handlers(reading)
  const faults: FaultRecord[] = []
  for (const event of events) {
    switch (event.ev) {
      case 'enqueue.invoke':
      case 'enqueue.ok':
      case 'enqueue.fail':
      case 'enqueue.info':
        promises.read(event)
        break
      case 'answer.lost':
        reading.counts.answersLost++
        break
      case 'fault.begin':
        reading.counts.faults[event.kind] = (reading.counts.faults[event.kind] ?? 0) + 1
        faults.push(event)
        lateness.read(event)
        flow.read(event)
        break
      case 'fault.end':
        lateness.read(event)
        flow.read(event)
        break
      case 'flow.repaired':
        flow.read(event)
        break
      case 'worker.up':
      case 'worker.down':
        lateness.read(event)
        break
      case 'busy':
        lateness.read(event)
        flow.read(event)
        break
      default:
        handlers.read(event)
    }
  }
  promises.check()
  handlers.check()
  return faults
}
