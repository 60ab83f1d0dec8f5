// Claims from a queue that has flow control: tracks share the claim, groups take turns, and no limit is passed. What runs is looked up at
// the beginning of each claim; nothing is counted in between.

import { afterStart, isShut } from '../../core/flow/breaker.js'
import type { ClaimBatch } from '../../core/flow/contract.js'
import { queueLimitName } from '../../core/flow/job-flow.js'
import { draw, FULL, priceOf, startsAt, waitMsFor } from '../../core/flow/rate.js'
import type { GroupSettings, Rate } from '../../core/flow/settings.js'
import { turnLength } from '../../core/flow/turn.js'
import type { FlowState } from '../../core/flow/views.js'
import { BATCH_MAX, type ClaimRequest } from '../../core/job-store.js'
import { moveBreaker } from './breakers.js'
import { groupEntry } from './groups.js'
import { groupOf, groupSettings, isOrdered, limitsOf, offer } from './held.js'
import { concurrencyNow } from './limits.js'
import type { Job, KeptGroup, Memory, Track } from './memory.js'

/** After this time a group is looked at again, whatever it waits for. */
const NAP_MAX_MS = 86_400_000

interface FlowRequest {
  readonly queue: string
  readonly limit: number
  readonly ahead: number
  readonly types: ClaimRequest['types']
  readonly batches: readonly ClaimBatch[]
  readonly nowMs: number
  /** Leases a job. */
  readonly start: (job: Job) => void
  /** Says of jobs that were leased that they are one batch. */
  readonly mark: (batch: readonly Job[]) => void
}

/** One claim of one queue. */
interface Look extends FlowRequest {
  readonly memory: Memory
  readonly groups: GroupSettings
  /** How many jobs run of each limit, by its name, and of each group of the queue, by `groupKey`. */
  readonly running: Map<string, number>
  /** Groups of which a job has started and waits for a time. */
  readonly started: ReadonlySet<string>
  /** Limits whose breaker lets probes start since this claim. */
  readonly probed: string[]
}

/** Why there is no job to take: for a time, or, with null, until something happens. */
interface Closed {
  readonly untilMs: number | null
}

export function claimFlow(memory: Memory, request: FlowRequest): FlowState {
  const { queue, limit, ahead } = request
  if (memory.queues.get(queue)?.paused) return { queue, more: false, waitMs: null }
  const look: Look = {
    ...request,
    memory,
    groups: groupSettings(memory, queue),
    running: countRunning(memory, queue),
    started: startedGroups(memory, queue),
    probed: [],
  }
  const tracks = tracksInTurn(memory, queue)
  for (const track of tracks) wakeNaps(look, track)
  const sharing = tracks.filter(({ turns }) => turns.size > 0)
  let left = Math.min(limit, roomOf(look))
  let wanted = Math.min(left, limit - ahead)
  const take = (track: Track, parts: number) => {
    const taken = takeFrom(look, track, { amount: Math.ceil(left / parts), wanted: Math.ceil(wanted / parts) })
    left -= taken
    wanted = Math.max(0, wanted - taken)
  }
  for (const [index, track] of sharing.entries()) take(track, sharing.length - index)
  // What some tracks had no use for goes to the others.
  for (const track of sharing) if (wanted > 0) take(track, 1)
  const { probed } = look
  return { ...stateAfter(look, tracks), ...(probed.length === 0 ? {} : { probed }) }
}

/** What the queue's own limit leaves for its tracks to share. */
function roomOf({ memory, queue, running, nowMs }: Look): number {
  const limit = memory.limits.get(queueLimitName(queue))
  if (limit === undefined) return BATCH_MAX
  const { concurrency, rate } = limit.settings
  const slots = concurrency === null ? BATCH_MAX : concurrency - (running.get(queueLimitName(queue)) ?? 0)
  const starts = rate === null || rate.counts === 'cost' ? BATCH_MAX : startsAt(rate, limit.emptyAtMs, nowMs)
  return Math.max(0, Math.min(slots, starts))
}

/** The queue's tracks, beginning with another one each time. Its plain jobs are a track like any other. */
function tracksInTurn(memory: Memory, queue: string): Track[] {
  const tracks = [...(memory.tracks.get(queue) ?? [])]
  const plain = memory.ready.get(queue)
  if (plain !== undefined && plain.values.length > 0) {
    tracks.push({ limits: [], held: new Map([['', plain]]), turns: new Map([['', null]]), naps: new Map() })
  }
  const claims = memory.flowClaims.get(queue) ?? 0
  memory.flowClaims.set(queue, claims + 1)
  const first = tracks.length === 0 ? 0 : claims % tracks.length
  return [...tracks.slice(first), ...tracks.slice(0, first)]
}

function countRunning(memory: Memory, queue: string): Map<string, number> {
  const running = new Map<string, number>()
  for (const job of memory.running.values) count(running, job, queue)
  return running
}

function count(running: Map<string, number>, job: Job, queue: string): void {
  const keys = [...limitsOf(job), ...(job.facts.queue === queue ? [groupKey(groupOf(job))] : [])]
  for (const key of keys) running.set(key, (running.get(key) ?? 0) + 1)
}

/** No limit has such a name. */
function groupKey(group: string): string {
  return `[${group}`
}

function startedGroups(memory: Memory, queue: string): ReadonlySet<string> {
  const { ordered, onRetry } = groupSettings(memory, queue)
  if (!ordered || onRetry === 'pass') return new Set()
  return new Set(memory.timed.values.filter((job) => job.fence > 0 && job.facts.queue === queue).map(groupOf))
}

function wakeNaps({ memory, queue, nowMs }: Look, { naps }: Track): void {
  for (const [group, atMs] of naps) {
    // One that would nap for days was laid down by a clock that was ahead.
    if (atMs > nowMs && atMs <= nowMs + NAP_MAX_MS) continue
    naps.delete(group)
    offer(memory, queue, group)
  }
}

/** How many jobs to take of a track: at most, and how many of these are not claimed ahead. */
interface Amount {
  readonly amount: number
  readonly wanted: number
}

/** Takes up to `amount` jobs of a track, turn by turn, until there is nothing more to take or what is wanted was taken. */
function takeFrom(look: Look, track: Track, { amount, wanted }: Amount): number {
  // Plain jobs have no groups that could wait for each other.
  const ahead = isPlain(track) ? 0 : amount - wanted
  let left = amount
  for (;;) {
    const before = left
    const groups = track.turns.size
    let visits = groups
    for (const [group, credit] of track.turns) {
      // Groups that were served stand behind those that were there when the round began.
      if (left === 0 || visits-- === 0) break
      const { taken, isClosed } = takeTurn(look, track, { group, credit, groups, share: before - ahead, amount: left })
      left -= taken
      // The others have the same limits.
      if (isClosed) return amount - left
    }
    if (left <= ahead || left === before) return amount - left
  }
}

/** The track that `tracksInTurn` makes: a job of any other has a group or limits. */
function isPlain({ limits, turns }: Track): boolean {
  return limits.length === 0 && turns.has('')
}

interface Turn {
  readonly group: string
  /** What an earlier claim left of the turn; null for a new one. */
  readonly credit: number | null
  /** How many groups take turns. */
  readonly groups: number
  /** What all of them share in this round. */
  readonly share: number
  /** What is left of it. */
  readonly amount: number
}

interface TurnEnd {
  readonly taken: number
  /** A limit of the track lets nothing more start. */
  readonly isClosed: boolean
}

/** One turn of one group. Decides where the group stands afterwards. */
function takeTurn(look: Look, track: Track, { group, credit, groups, share, amount }: Turn): TurnEnd {
  const { turns, naps } = track
  const { concurrency, weight } = boundsOf(look, group)
  const length = credit ?? turnLength({ amount: share, groups, concurrency, weight })
  const given: Given = { quarter: Math.ceil(length / 4), byPriority: new Map() }
  for (let taken = 0; ; taken++) {
    const job = nextOf(look, track, group, given)
    if (job === 'unknown type' || (isJob(job) && taken === length)) {
      turns.delete(group)
      turns.set(group, null)
      return { taken, isClosed: false }
    }
    if (!isJob(job)) {
      // Full, paused or empty: the next event brings it back.
      turns.delete(group)
      if (job.untilMs !== null) naps.set(group, Math.min(job.untilMs, look.nowMs + NAP_MAX_MS))
      return { taken, isClosed: false }
    }
    const isClosed = closedFor(look, job) !== null
    if (taken === amount || isClosed) {
      turns.set(group, length - taken)
      return { taken, isClosed }
    }
    if (concurrency === 1) {
      // It is full then, until the last of them has been settled.
      turns.delete(group)
      return { taken: startBatch(look, batchOf(look, track, job), amount), isClosed: false }
    }
    startJob(look, job)
    give(given, job)
  }
}

function give({ byPriority }: Given, { facts: { priority } }: Job): void {
  byPriority.set(priority, (byPriority.get(priority) ?? 0) + 1)
}

/** Starts the first job of a batch, which may start, and as many of the others as limits and rates let. */
function startBatch(look: Look, [first, ...others]: readonly [Job, ...Job[]], amount: number): number {
  const { memory, queue, nowMs } = look
  startJob(look, first)
  const taken = [first]
  for (const job of others) {
    const { rate } = boundsOf(look, groupOf(job))
    const emptyAtMs = memory.groups.get(queue)?.get(groupOf(job))?.emptyAtMs ?? FULL
    const waitMs = rate === null ? 0 : waitMsFor(rate, emptyAtMs, priceOf(rate, costOf(job)), nowMs)
    if (taken.length === amount || waitMs > 0 || closedFor(look, job) !== null) break
    startJob(look, job)
    taken.push(job)
  }
  if (taken.length > 1) look.mark(taken)
  return taken.length
}

/** What a group of one job at a time gives in one turn: its first job, with those that the worker runs together with it. A store that would
 *  have to pass over hundreds of others to find those may leave them out. */
function batchOf(look: Look, { held, limits }: Track, first: Job): readonly [Job, ...Job[]] {
  const { type } = first.facts
  const group = groupOf(first)
  const max = look.batches.find((batch) => batch.type === type)?.max ?? 1
  // A job that was lost with its worker runs alone.
  const fits = (job: Job) => job.facts.type === type && job.crashes === 0
  if (max <= 1 || !fits(first)) return [first]
  const others = held.get(group)!.values.filter((job) => job !== first)
  if (!isOrdered(look.memory, look.queue, group)) return withNext(look, first, others.filter(fits), max)
  const end = others.findIndex((job) => !fits(job) || isPreceded(look, job, limits))
  return [first, ...others.slice(0, Math.min(end === -1 ? max : end, max - 1))]
}

/** A job and those that come after it, `max` together. */
function withNext(look: Look, first: Job, others: readonly Job[], max: number): readonly [Job, ...Job[]] {
  const { memory, queue } = look
  if ((memory.queues.get(queue)?.settings.flow?.agingMs ?? null) === null) return [first, ...others.slice(0, max - 1)]
  const given: Given = { quarter: Math.ceil(max / 4), byPriority: new Map() }
  give(given, first)
  const batch: [Job, ...Job[]] = [first]
  let left = others
  while (batch.length < max && left.length > 0) {
    const next = firstOf(look, left, given)!
    batch.push(next)
    give(given, next)
    left = left.filter((job) => job !== next)
  }
  return batch
}

/** What a turn has given of each priority. Age counts for the first quarter of the turn that each of them gives: however long its jobs
 *  have waited, a priority gives no more than that beyond what it would give by itself. */
interface Given {
  readonly quarter: number
  readonly byPriority: Map<number, number>
}

const NOTHING_GIVEN: Given = { quarter: 1, byPriority: new Map() }

function isJob(found: Job | Closed | 'unknown type'): found is Job {
  return typeof found === 'object' && 'facts' in found
}

/** What holds for a group: its own settings, then the queue's. */
function boundsOf(
  { memory, queue, groups }: Pick<Look, 'memory' | 'queue' | 'groups'>,
  group: string,
): { concurrency: number | null; rate: Rate | null; weight: number; kept: KeptGroup | undefined } {
  if (group === '') return { concurrency: null, rate: null, weight: 1, kept: undefined }
  const kept = memory.groups.get(queue)?.get(group)
  const own = kept?.override
  return {
    concurrency: groups.ordered ? 1 : (own?.concurrency ?? groups.concurrency),
    rate: own?.rate ?? groups.rate,
    weight: own?.weight ?? 1,
    kept,
  }
}

/** The job a group would give next, whatever the limits of its track say. */
function nextOf(
  look: Look,
  { held, limits }: Track,
  group: string,
  given: Given = NOTHING_GIVEN,
): Job | Closed | 'unknown type' {
  const { memory, queue, types, nowMs } = look
  const waiting = held.get(group)?.values ?? []
  if (waiting.length === 0) return { untilMs: null }
  const { concurrency, rate, kept } = boundsOf(look, group)
  if (kept?.paused) return { untilMs: null }
  if (kept !== undefined && kept.notBeforeMs > nowMs) return { untilMs: kept.notBeforeMs }
  if (concurrency !== null && (look.running.get(groupKey(group)) ?? 0) >= concurrency) return { untilMs: null }

  const isFirst = isOrdered(memory, queue, group)
  if (isFirst && (look.started.has(group) || isPreceded(look, waiting[0]!, limits))) return { untilMs: null }
  const isKnown = (job: Job) => types === null || types.includes(job.facts.type)
  const job = isFirst ? waiting[0]! : firstOf(look, waiting.filter(isKnown), given)
  if (job === undefined || !isKnown(job)) return 'unknown type'
  const waitMs = rate === null ? 0 : waitMsFor(rate, kept?.emptyAtMs ?? FULL, priceOf(rate, costOf(job)), nowMs)
  return waitMs === 0 ? job : { untilMs: nowMs + waitMs }
}

/** The job that comes first: with aging, the first of each priority competes with what it has gained. */
function firstOf(
  { memory, queue, nowMs }: Look,
  waiting: readonly Job[],
  { quarter, byPriority }: Given,
): Job | undefined {
  const agingMs = memory.queues.get(queue)?.settings.flow?.agingMs ?? null
  if (agingMs === null) return waiting[0]
  const rankOf = ({ facts: { priority }, readySinceMs }: Job) =>
    (byPriority.get(priority) ?? 0) < quarter ? priority + (nowMs - readySinceMs) / agingMs : priority
  const firsts = waiting.filter((job, index) => waiting[index - 1]?.facts.priority !== job.facts.priority)
  return firsts.reduce<Job | undefined>((best, job) => (best && rankOf(best) >= rankOf(job) ? best : job), undefined)
}

/** Whether another track holds an earlier job of an ordered group. */
function isPreceded({ memory, queue }: Look, job: Job, limits: readonly string[]): boolean {
  return (memory.tracks.get(queue) ?? [])
    .filter((track) => track.limits !== limits)
    .some(({ held }) => (held.get(groupOf(job))?.values[0]?.order ?? Number.POSITIVE_INFINITY) < job.order)
}

/** What keeps a job from starting beside its group; null when nothing does. A time only if no event is waited for as well. */
function closedFor({ memory, running, nowMs }: Look, job: Job): Closed | null {
  let untilMs = 0
  for (const name of limitsOf(job)) {
    const limit = memory.limits.get(name)
    if (limit === undefined) continue
    const { rate } = limit.settings
    const shut = isShut(limit.breaker, nowMs)
    const concurrency = concurrencyNow(limit)
    if (shut !== false && shut.untilMs === null) return { untilMs: null }
    if (concurrency !== null && (running.get(name) ?? 0) >= concurrency) return { untilMs: null }
    if (shut !== false) untilMs = Math.max(untilMs, shut.untilMs!)
    const waitMs = rate === null ? 0 : waitMsFor(rate, limit.emptyAtMs, priceOf(rate, costOf(job)), nowMs)
    untilMs = Math.max(untilMs, limit.notBeforeMs, nowMs + waitMs)
  }
  return untilMs > nowMs ? { untilMs } : null
}

function costOf(job: Job): number {
  return job.facts.flow?.cost ?? 1
}

/** Leases a job and takes what its rates ask for. */
function startJob(look: Look, job: Job): void {
  const { memory, queue, nowMs } = look
  const group = groupOf(job)
  const { rate } = boundsOf(look, group)
  if (rate !== null) {
    const entry = groupEntry(memory, queue, group)
    entry.emptyAtMs = draw(rate, entry.emptyAtMs, priceOf(rate, costOf(job)), nowMs)
  }
  for (const name of limitsOf(job)) {
    const limit = memory.limits.get(name)
    if (limit === undefined) continue
    const { rate: taken } = limit.settings
    if (taken !== null) limit.emptyAtMs = draw(taken, limit.emptyAtMs, priceOf(taken, costOf(job)), nowMs)
    const { position } = limit.breaker
    moveBreaker(limit, afterStart(limit.breaker, nowMs), { ok: 0, failed: 0, by: null, nowMs })
    if (limit.breaker.position !== position) look.probed.push(name)
  }
  look.start(job)
  count(look.running, job, queue)
}

/** What a worker should do next: claim again, wait for a time, or wait to be woken. */
function stateAfter(look: Look, tracks: readonly Track[]): FlowState {
  const { queue, nowMs } = look
  const times: number[] = []
  for (const track of tracks) {
    times.push(...track.naps.values())
    for (const group of track.turns.keys()) {
      const found = nextOf(look, track, group)
      if (found === 'unknown type') continue
      const closed = isJob(found) ? closedFor(look, found) : found
      if (closed === null) return { queue, more: true, waitMs: null }
      if (closed.untilMs !== null) times.push(closed.untilMs)
      // The others have the same limits.
      if (isJob(found)) break
    }
  }
  return { queue, more: false, waitMs: times.length === 0 ? null : Math.max(1, Math.min(...times) - nowMs) }
}
