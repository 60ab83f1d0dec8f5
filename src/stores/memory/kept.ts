// What long jobs keep between attempts.

import type { Lease } from '../../core/job.js'
import type { DoubtfulRequest, KeptOf, NewSignal, SignalResult } from '../../core/kept/contract.js'
import {
  type DoubtfulPage,
  type KeptEntry,
  type ParkedFor,
  type Recalled,
  SIGNALS_MAX,
  type WaitView,
} from '../../core/kept/kept.js'
import { isFinished } from '../../core/states.js'
import { FRONT, heldJob, type Job, type Memory } from './memory.js'
import { putReady, take } from './moves.js'
import { compareText } from './ordered.js'

export function recall(memory: Memory, lease: Lease): Recalled | null {
  const job = heldJob(memory, lease)
  if (job === null) return null
  const { wait } = job
  return {
    entries: [...job.kept.values()].map(({ fence: _, ...entry }) => entry),
    signals: job.signals,
    wait: wait === null ? null : { name: wait.name, turn: wait.turn, untilMs: wait.untilMs },
    outputEnd: job.output.at(-1)?.next ?? 0,
  }
}

export function keep(memory: Memory, entries: readonly KeptOf[], nowMs: number): boolean[] {
  return entries.map(({ entry, ...lease }) => keepOne(memory, lease, entry, nowMs))
}

function keepOne(memory: Memory, lease: Lease, entry: KeptEntry, nowMs: number): boolean {
  const job = heldJob(memory, lease)
  if (job === null) return false
  const { tookMs, ...rest } = entry
  const known = job.kept.get(`${entry.kind} ${entry.name}`)
  if (known !== undefined && known.endedAtMs !== null) return true
  job.kept.set(`${entry.kind} ${entry.name}`, {
    ...rest,
    attempt: job.attempt,
    fence: job.fence,
    beganAtMs: known?.beganAtMs ?? nowMs - tookMs,
    endedAtMs: entry.isEnded ? nowMs : null,
  })
  return true
}

/** What a job waits for now. */
export function waitOf({ state, fence, wait }: Job): WaitView | null {
  if (state !== 'scheduled' || wait === null || wait.fence !== fence) return null
  return { name: wait.name, since: new Date(wait.sinceMs), until: new Date(wait.untilMs) }
}

/** Lets a job that has just been scheduled wait for a signal, unless it is there. */
export function park(memory: Memory, job: Job, parked: ParkedFor, nowMs: number): void {
  const isSame = job.wait?.name === parked.name && job.wait.turn === parked.turn
  const sinceMs = isSame ? job.wait!.sinceMs : nowMs
  job.wait = { ...parked, fence: job.fence, sinceMs, untilMs: job.runAtMs! }
  wake(memory, job, nowMs)
}

function wake(memory: Memory, job: Job, nowMs: number): boolean {
  const waited = waitOf(job)
  if (waited === null) return false
  if (job.signals.filter(({ name }) => name === waited.name).length <= job.wait!.seen) return false
  take(memory, job)
  putReady(memory, job, FRONT, nowMs)
  return true
}

export function signal(memory: Memory, { id, by: _, ...sent }: NewSignal, nowMs: number): SignalResult {
  const job = memory.jobs.get(id)
  if (job === undefined) return { id, result: 'missing' }
  if (job.signals.some(({ key }) => key === sent.key)) return { id, result: 'signalled', woken: false }
  if (isFinished(job.state)) return { id, result: 'refused', state: job.state }
  if (job.signals.length >= SIGNALS_MAX) return { id, result: 'full' }
  job.signals.push({ ...sent, atMs: nowMs })
  return { id, result: 'signalled', woken: wake(memory, job, nowMs) }
}

export function doubtful(memory: Memory, { id, queues, limit, after }: DoubtfulRequest): DoubtfulPage {
  const jobs = [...memory.jobs.values()]
    .filter(({ facts }) => (id === null || facts.id === id) && (queues === null || queues.includes(facts.queue)))
    .sort((one, other) => compareText(one.facts.id, other.facts.id))
  const effects = jobs.flatMap((job) => {
    const { id, type, queue } = job.facts
    return [...job.kept.values()]
      .filter((entry) => entry.kind === 'effect' && isDoubtful(job, entry))
      .sort((one, other) => compareText(one.name, other.name))
      .map(({ name: key, begun, beganAtMs, endedAtMs }) => {
        const endedAt = endedAtMs === null ? null : new Date(endedAtMs)
        return { id, type, queue, key, begun, beganAt: new Date(beganAtMs), endedAt }
      })
  })
  const isBehind = (one: { readonly id: string; readonly key: string }) =>
    after === null || (compareText(one.id, after.id) || compareText(one.key, after.key)) > 0
  const page = effects.filter(isBehind).slice(0, limit)
  const last = page.at(-1)
  return { effects: page, next: page.length < limit || last === undefined ? null : { id: last.id, key: last.key } }
}

function isDoubtful(
  job: Job,
  { begun, endedAtMs, fence }: { begun: number; endedAtMs: number | null; fence: number },
): boolean {
  return begun > 1 || (endedAtMs === null && (job.state !== 'running' || job.fence !== fence))
}
