// Runs a sequence of operations on two stores and holds each answer of the second against the first's.

import { isDeepStrictEqual } from 'node:util'
import { expect } from 'vitest'
import { isHoldfastError } from '../../src/core/errors.js'
import type { BreakerMove } from '../../src/core/flow/views.js'
import type { Claim, ClaimRequest } from '../../src/core/job-store.js'
import type { JobChanges, ListRequest } from '../../src/core/operator-store.js'
import type { JobState } from '../../src/core/states.js'
import type { Store } from '../../src/core/store.js'
import type { Pruned } from '../../src/core/upkeep-store.js'
import type { JobSummary } from '../../src/core/views.js'
import type { Memory } from '../../src/stores/memory/memory.js'
import type { ManualClock } from '../../src/testing/manual-clock.js'
import { followClaim, plainly, type Reference } from './flow-claims.js'
import type { Kind, Operation } from './operation.js'
import { QUEUES } from './operations.js'
import { Seen } from './seen.js'

const BY = 'operator'
const DAY_MS = 86_400_000
/** Pages of one list that are read. */
const PAGES_MAX = 6
const PRUNES_MAX = 200

/** What the comparisons have covered. */
export interface Tally {
  runs: number
  operations: number
  readonly kinds: Map<Kind, number>
  readonly states: Set<JobState>
}

export function newTally(): Tally {
  return { runs: 0, operations: 0, kinds: new Map(), states: new Set() }
}

export interface Comparison {
  readonly reference: Store
  readonly candidate: Store
  /** What the reference knows: with it, claims of queues with flow control are followed (flow-claims.ts). */
  readonly memory: Memory
  /** The time of both. */
  readonly clock: ManualClock
  readonly tally: Tally
  /** Whether some ids are smaller than those that were made before them. */
  readonly lateIds?: boolean
}

/** Runs the operations on both stores, one after another, and raises at the first answer that differs. */
export async function compare(comparison: Comparison, operations: readonly Operation[]): Promise<void> {
  const { clock, tally } = comparison
  const seen = new Seen(clock, tally.runs++, comparison.lateIds)
  for (const [index, operation] of operations.entries()) {
    tally.operations++
    tally.kinds.set(operation.kind, (tally.kinds.get(operation.kind) ?? 0) + 1)
    if (operation.kind === 'advance')
      await clock.advance(operation.ms === 'midnight' ? untilMidnightMs(clock) : operation.ms)
    else await hold(comparison, await callOf(operation, seen, comparison), `operation ${index} (${operation.kind})`)
  }
  for (const call of lastLook(seen, tally)) await hold(comparison, call, 'the last look')
}

function untilMidnightMs(clock: ManualClock): number {
  return DAY_MS - (clock.now() % DAY_MS)
}

/** One call, made ready to be sent to either store. */
interface Call {
  readonly send: (store: Store) => Promise<unknown>
  /** Of a claim: what is asked for. */
  readonly claim?: ClaimRequest
  /** Takes note of the answer both gave. */
  readonly learn?: (answer: never) => void
}

function call<T>(send: (store: Store) => Promise<T>, learn?: (answer: T) => void): Call {
  return learn === undefined ? { send } : { send, learn: learn as (answer: never) => void }
}

function claimCall(claim: ClaimRequest, learn?: (answer: Claim) => void): Call {
  return { ...call((store) => store.claim(claim), learn), claim }
}

async function hold(comparison: Comparison, call: Call, where: string): Promise<void> {
  if (call.claim !== undefined) return holdClaim(comparison, call.claim, call, where)
  const { reference, candidate } = comparison
  const [expected, actual] = await Promise.all([answerOf(call.send(reference)), answerOf(call.send(candidate))])
  sameAnswers(comparison, { actual, expected, where })
  if (!isRefused(expected)) call.learn?.(expected as never)
}

/** An error of the contract is an answer. */
function answerOf(answer: Promise<unknown>): Promise<unknown> {
  return answer.catch((error: unknown) => {
    if (!isHoldfastError(error)) throw error
    return { refusedWith: error.code }
  })
}

function isRefused(answer: unknown): boolean {
  return typeof answer === 'object' && answer !== null && 'refusedWith' in answer
}

function sameAnswers(
  { reference, candidate, clock }: Comparison,
  { actual, expected, where }: { readonly actual: unknown; readonly expected: unknown; readonly where: string },
): void {
  if (isDeepStrictEqual(actual, expected)) return
  const at = new Date(clock.now()).toISOString()
  expect(actual, `${where} at ${at}: ${candidate.kind} answers differently from ${reference.kind}`).toStrictEqual(
    expected,
  )
}

async function holdClaim(comparison: Comparison, request: ClaimRequest, { learn }: Call, where: string): Promise<void> {
  const { reference, candidate, memory } = comparison
  const given = await candidate.claim(request)
  const { claim, problems } = await followClaim({ store: reference, memory } satisfies Reference, request, given)
  expect(problems, `${where}: ${candidate.kind} claims what ${reference.kind} does not`).toEqual([])
  sameAnswers(comparison, { actual: sorted(plainly(given)), expected: sorted(claim), where })
  learn?.(given as never)
}

/** Which breakers a claim probed has no order of its own. */
function sorted(claim: Claim): Claim {
  if (claim.flow === undefined) return claim
  const flow = claim.flow.map((state) =>
    state.probed === undefined ? state : { ...state, probed: [...state.probed].sort() },
  )
  return { ...claim, flow }
}

async function callOf(operation: Operation, seen: Seen, { reference, clock }: Comparison): Promise<Call> {
  const nowMs = clock.now()
  const leases = 'leases' in operation ? operation.leases.map((lease) => seen.lease(lease)) : []
  switch (operation.kind) {
    case 'enqueue': {
      const jobs = operation.jobs.map((sketch) => seen.send(sketch))
      return call(
        (store) => store.enqueue(jobs),
        (answers) => seen.enqueued(answers),
      )
    }
    case 'claim': {
      const { types, batches, worker, leaseMs } = operation
      const queues = operation.queues.map(({ queue, limit }) => ({ queue: seen.queue(queue), limit }))
      return claimCall({ queues, types, batches, worker, leaseMs }, (claim) => seen.claimed(claim))
    }
    case 'begin':
      return call((store) => store.begin(leases))
    case 'watch':
      return call((store) => store.watch(leases))
    case 'extend':
      return call((store) => store.extend(leases, operation.leaseMs))
    case 'note': {
      const notes = operation.notes.map(({ lease, progress, logs }) => {
        return { ...seen.lease(lease), progress, logs: logs.map((text, line) => ({ atMs: nowMs + line, text })) }
      })
      return call((store) => store.note(notes))
    }
    case 'settle': {
      const { onlyExpired } = operation
      const jobs = operation.jobs.map((sketch) => seen.settlement(sketch))
      return call(
        (store) => store.settle(jobs, { onlyExpired }),
        (results) => seen.settled(results),
      )
    }
    case 'promote':
      return call((store) => store.promote(operation.limit))
    case 'expired':
      // How long a store has been up is its own affair, and null where it cannot say.
      return call(async (store) => ({ ...(await store.expired(operation.limit)), upMs: null }))
    case 'due':
      return call((store) => store.due(operation.limit))
    case 'fire':
      return fireCall(operation, seen, reference, nowMs)
    case 'prune': {
      const calls = seen.pruneCalls()
      return call((store) => pruneAll(store, operation.retentionMs, calls))
    }
    default:
      return operatorCall(operation, seen, nowMs)
  }
}

type Of<K extends Kind> = Extract<Operation, { readonly kind: K }>

async function fireCall(operation: Of<'fire'>, seen: Seen, reference: Store, nowMs: number): Promise<Call> {
  const { name, expectedOffMs, tickOffsMs, nextInMs } = operation
  const schedule = (await reference.schedules()).find((known) => known.name === name)
  const nextAtMs = schedule?.nextAt?.getTime() ?? nowMs
  const settings = schedule ?? seen.schedule({ ...NO_SCHEDULE, name })
  const ticks = tickOffsMs
    .map((offMs) => nextAtMs + offMs)
    .sort((one, other) => one - other)
    .map((tickMs) => ({ tickMs, job: seen.sendTick(settings) }))
  const request = {
    ...{ name, ticks, expectedNextAtMs: nextAtMs + expectedOffMs },
    nextAtMs: nextInMs === null ? null : nowMs + nextInMs,
  }
  return call(
    (store) => store.fire(request),
    (fired) => seen.fired(fired),
  )
}

const NO_SCHEDULE = {
  ...{ cron: '0 * * * *', zone: 'UTC', queue: 'email', limits: {}, tags: [] },
  ...({ catchUp: 'skip', overlap: 'allow' } as const),
}

/** How much one call does at most is left to the store, and on a busy machine it is less: what all calls together drop is compared. */
async function pruneAll(store: Store, retentionMs: number, calls: number): Promise<Pick<Pruned, 'days' | 'rows'>> {
  const days = new Set<string>()
  let rows = 0
  let isDone = false
  for (let turn = 0; turn < calls || (!isDone && turn < PRUNES_MAX); turn++) {
    const pruned = await store.prune({ retentionMs })
    for (const day of pruned.days) days.add(day)
    rows += pruned.rows
    isDone = pruned.isDone
  }
  return { days: [...days].sort(), rows }
}

function operatorCall(operation: Operation, seen: Seen, nowMs: number): Call {
  switch (operation.kind) {
    case 'cancel':
    case 'requeue':
    case 'discard':
    case 'delete': {
      const { kind } = operation
      const ids = operation.jobs.map((job) => seen.job(job))
      return call<readonly { id: string; result: string }[]>(
        (store) => store[kind](ids, BY),
        (results) => seen.operated(results),
      )
    }
    case 'update': {
      const { priority, runInMs, payload } = operation
      const id = seen.job(operation.job)
      const changes: JobChanges = {
        ...(priority === undefined ? {} : { priority }),
        ...(runInMs === undefined ? {} : { runAtMs: runInMs === null ? null : nowMs + runInMs }),
        ...(payload === undefined ? {} : { payload }),
      }
      return call(
        (store) => store.update(id, changes, BY),
        (result) => seen.operated([result]),
      )
    }
    case 'pause':
    case 'resume':
      return call((store) => store[operation.kind](seen.queue(operation.queue), BY))
    case 'setQueue':
      return call((store) => store.setQueue(seen.queue(operation.queue), operation.settings, BY))
    case 'setSchedule': {
      const schedule = seen.schedule(operation.schedule)
      return call((store) => store.setSchedule(schedule, nowMs + operation.nextInMs, BY))
    }
    case 'removeSchedule':
    case 'pauseSchedule':
      return call((store) => store[operation.kind](operation.name, BY))
    case 'resumeSchedule':
      return call((store) => store.resumeSchedule(operation.name, nowMs + operation.nextInMs, BY))
    case 'setLimit': {
      const { name, settings, origin } = operation
      return call((store) => store.setLimit(name, settings, BY, origin))
    }
    case 'removeLimit':
      return call((store) => store.removeLimit(operation.name, BY))
    case 'forceBreaker':
      return call((store) => store.forceBreaker(operation.name, operation.forced, BY))
    case 'observe':
      return call(async (store) => sortedMoves(await store.observe(operation.reports)))
    case 'setFlow': {
      const settings = { limits: {}, ...(operation.flow === null ? {} : { flow: operation.flow }) }
      return call((store) => store.setQueue(seen.queue(operation.queue), settings, BY))
    }
    case 'setGroup': {
      const { group, override } = operation
      return call((store) => store.setGroup(seen.queue(operation.queue), group, override, BY))
    }
    case 'pauseGroup':
    case 'resumeGroup':
      return call((store) => store[operation.kind](seen.queue(operation.queue), operation.group, BY))
    default:
      return lookCall(operation, seen)
  }
}

/** Reports of one call are applied in an order of the store's own. */
function sortedMoves(moves: readonly BreakerMove[]): readonly BreakerMove[] {
  return [...moves].sort((one, other) => (one.limit < other.limit ? -1 : 1))
}

function lookCall(operation: Operation, seen: Seen): Call {
  switch (operation.kind) {
    case 'get': {
      const id = seen.job(operation.job)
      return call((store) => store.get(id))
    }
    case 'list': {
      const filter = seen.filter(operation.filter)
      const before = operation.before === null ? null : seen.job(operation.before)
      const request = { filter, limit: operation.limit, before }
      return call((store) => readPages(store, request))
    }
    case 'count':
      return call((store) => store.count(seen.filter(operation.filter), { max: operation.max }))
    case 'stats': {
      const queue = operation.queue === null ? null : seen.queue(operation.queue)
      return call((store) => store.stats(queue))
    }
    case 'endings': {
      const ids = operation.jobs.map((job) => seen.job(job))
      return call((store) => store.endings(ids))
    }
    case 'beat':
      return call((store) => store.beat(operation.worker))
    case 'leave':
      return call((store) => store.leave(operation.worker))
    case 'groups': {
      const { prefix, limit } = operation
      return call((store) => store.groups({ queue: seen.queue(operation.queue), prefix, after: null, limit }))
    }
    case 'limits':
    case 'queues':
    case 'schedules':
    case 'workers':
    case 'now':
      return call<unknown>((store) => store[operation.kind]())
    default:
      return operatingCall(operation, seen)
  }
}

function operatingCall(operation: Operation, seen: Seen): Call {
  switch (operation.kind) {
    case 'overview':
    case 'sample':
    case 'stepBulk':
      return call<unknown>((store) => store[operation.kind]())
    case 'bulks':
      return call((store) => store.bulks(100))
    case 'audit':
      return call(readAudit)
    case 'deadGroups': {
      const queue = operation.queue === null ? null : seen.queue(operation.queue)
      return call((store) => store.deadGroups({ queue, limit: operation.limit }))
    }
    case 'standing': {
      const id = seen.job(operation.job)
      return call((store) => store.standing(id))
    }
    case 'tally': {
      const tallies = operation.tallies.map(({ queue, count }) => ({
        ...NO_TALLY,
        queue: seen.queue(queue),
        dead: count,
      }))
      return call((store) => store.tally(tallies))
    }
    case 'series': {
      const queue = operation.queue === null ? null : seen.queue(operation.queue)
      const { backMs, stepMs } = operation
      return call(async (store) => store.series({ queue, sinceMs: (await store.now()) - backMs, stepMs }))
    }
    case 'startBulk': {
      const { action, perSecond, limit } = operation
      const bulk = { id: seen.newBulk(), filter: seen.filter(operation.filter), by: BY, expected: null }
      return call((store) => store.startBulk({ ...bulk, action, perSecond, limit }))
    }
    case 'cancelBulk': {
      const id = seen.bulk(operation.back)
      return call((store) => store.cancelBulk(id, BY))
    }
    default:
      throw new Error(`no call for ${operation.kind}`)
  }
}

const NO_TALLY = {
  ...{ enqueued: 1, claimed: 0, succeeded: 2, failed: 0, retried: 0, dead: 0, cancelled: 0, rescued: 0 },
  ...{ waitMsTotal: 1.5, runMsTotal: 0 },
}

/** The newest lines without their numbers, which go on from run to run; lines of one call have no order of their own. */
async function readAudit(store: Store): Promise<unknown> {
  const { entries } = await store.audit({ before: null, limit: 200 })
  const oldest = entries.at(-1)?.at.getTime()
  return entries
    .filter(({ at }) => entries.length < 200 || at.getTime() !== oldest)
    .map(({ line: _, ...entry }) => JSON.stringify(entry))
    .sort()
}

/** The jobs of the first pages. A last page that is full may point to an empty one, so where pages end is not compared. */
async function readPages(store: Store, request: ListRequest, pagesMax: number = PAGES_MAX): Promise<JobSummary[]> {
  const found: JobSummary[] = []
  let before = request.before
  for (let page = 0; page < pagesMax; page++) {
    const { jobs, next } = await store.list({ ...request, before })
    expect(jobs.length).toBeLessThanOrEqual(request.limit)
    found.push(...jobs)
    if (next === null) break
    before = next
  }
  return found
}

/** Everything that can be seen of a store from outside, so that no difference stays hidden at the end of a run. */
function lastLook(seen: Seen, tally: Tally): Call[] {
  const queues = QUEUES.map((queue) => ({ queue: seen.queue(queue), limit: 5_000 }))
  return [
    call(
      (store) => readPages(store, { filter: {}, limit: 200, before: null }, 50),
      (jobs) => {
        for (const { state } of jobs) tally.states.add(state)
      },
    ),
    call((store) => store.stats(null)),
    call((store) => store.queues()),
    call((store) => store.schedules()),
    // The whole order of what is ready.
    claimCall({ queues, types: null, worker: 'last', leaseMs: 1_000 }),
  ]
}
