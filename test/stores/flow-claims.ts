// Holds a claim of queues with flow control against the memory store. Which of several groups comes first is left to a store where they
// came together, so the two need not take the same jobs. Instead the memory store is asked about each job that was given, in its order:
// may it start now? So it follows the other, and what it would refuse is found: a limit that is passed, a group that overtakes itself.

import { isDeepStrictEqual } from 'node:util'
import type { FlowState } from '../../src/core/flow/views.js'
import type { ClaimedJob } from '../../src/core/job.js'
import type { Claim, ClaimRequest } from '../../src/core/job-store.js'
import type { Store } from '../../src/core/store.js'
import { groupOf, groupSettings, hasFlow, limitsOf } from '../../src/stores/memory/held.js'
import { concurrencyNow } from '../../src/stores/memory/limits.js'
import type { Job, Memory, Track } from '../../src/stores/memory/memory.js'

/** The memory store and what it knows. */
export interface Reference {
  readonly store: Store
  readonly memory: Memory
}

interface Asked {
  readonly queue: string
  readonly limit: number
  readonly given: readonly ClaimedJob[]
  readonly state: FlowState | undefined
}

/** Lets the memory store take what another has given. Answers what it would have answered, as far as a store must; and what is wrong. */
export async function followClaim(
  reference: Reference,
  request: ClaimRequest,
  given: Claim,
): Promise<{ readonly claim: Claim; readonly problems: readonly string[] }> {
  const limits = new Map<string, number>()
  for (const { queue, limit } of request.queues) limits.set(queue, (limits.get(queue) ?? 0) + limit)
  const problems: string[] = []
  const claims: Claim[] = []
  const flow: FlowState[] = []
  for (const [queue, limit] of limits) {
    const asked = {
      queue,
      limit,
      given: given.jobs.filter((job) => job.queue === queue),
      state: given.flow?.find((state) => state.queue === queue),
    }
    if (!hasFlow(reference.memory, queue)) {
      claims.push(await reference.store.claim({ ...request, queues: [{ queue, limit }] }))
      continue
    }
    const followed = await followQueue(reference, request, asked)
    claims.push(...followed.claims)
    flow.push(followed.state)
    problems.push(...followed.problems)
  }
  const waits = claims.flatMap(({ waitedMs }) => (waitedMs === null ? [] : [waitedMs]))
  const claim: Claim = {
    jobs: claims.flatMap(({ jobs }) => jobs),
    nowMs: given.nowMs,
    waitedMs: waits.length === 0 ? null : Math.max(...waits),
    ...(flow.length === 0 ? {} : { flow }),
  }
  return { claim, problems }
}

/** What a store gives a plain job of a queue that has flow control. */
const COUNTED = { group: null, limits: [], cost: 1 }

/** A claim as the memory store would have answered it. */
export function plainly(claim: Claim): Claim {
  const jobs = claim.jobs.map(({ flow, ...job }) =>
    flow === undefined || isDeepStrictEqual(flow, COUNTED) ? job : { ...job, flow },
  )
  return { ...claim, jobs }
}

async function followQueue(
  { store, memory }: Reference,
  request: ClaimRequest,
  { queue, limit, given, state }: Asked,
): Promise<{ claims: Claim[]; state: FlowState; problems: string[] }> {
  const claims: Claim[] = []
  const problems: string[] = []
  const probed: string[] = []
  const claimUpTo = async (amount: number) => {
    const claim = await store.claim({ ...request, queues: [{ queue, limit: amount }] })
    probed.push(...(claim.flow?.[0]?.probed ?? []))
    return claim
  }
  for (let place = 0; place < given.length; ) {
    const job = given[place]!
    const batch = given.slice(place, place + (job.batch ?? 1))
    steer(memory, queue, job)
    // Where no other jobs share the claim, a batch is as large as it may be.
    const isAlone = (memory.tracks.get(queue)?.length ?? 0) === 1 && (memory.ready.get(queue)?.values.length ?? 0) === 0
    const isBatch = batch.length > 1 || (isAlone && mostOf(memory, queue, job.flow?.group ?? '') === 1)
    const plain = memory.ready.get(queue)
    // Plain jobs always have a turn: beside them a batch would get its share of the claim.
    if (batch.length > 1) memory.ready.delete(queue)
    const claim = await claimUpTo(isBatch && isAlone ? limit - place : batch.length)
    if (plain !== undefined) memory.ready.set(queue, plain)
    claims.push(claim)
    const [wanted, taken] = [batch, claim.jobs].map((jobs) => jobs.map(({ id }) => id).join(' '))
    if (taken !== wanted) problems.push(`${wanted} may not start: the memory store gives ${taken || 'nothing'}`)
    place += batch.length
  }
  if (given.length > limit) problems.push(`${given.length} jobs of ${queue} were given for ${limit}`)
  offerEach(memory, queue, () => true)
  const rest = (await claimUpTo(0)).flow![0]!
  if (state !== undefined)
    problems.push(...(await statesApart({ store, memory }, request, { queue, limit, given, state }, rest)))
  const left = state ?? rest
  const same = probed.length === 0 ? {} : { probed: [...new Set(probed)].sort() }
  return { claims, state: { queue, more: left.more, waitMs: left.waitMs, ...same }, problems }
}

/** What a claim says about the rest must never keep a worker from a job that could start. */
async function statesApart(
  reference: Reference,
  request: ClaimRequest,
  { queue, limit, given, state }: Asked & { readonly state: FlowState },
  rest: FlowState,
): Promise<string[]> {
  const problems: string[] = []
  if (!state.more && rest.more && !(await mayWaitForCost(reference, request, queue)))
    problems.push(`a job of ${queue} could start, and the claim says that none is left`)
  if (state.more && given.length < limit) problems.push(`the claim of ${queue} leaves jobs though it had room for them`)
  if (state.more || rest.more) return problems
  const latestMs = await latestWait(reference, request, queue)
  if (latestMs !== null && (state.waitMs === null || state.waitMs > latestMs)) {
    problems.push(`a job of ${queue} may start in ${latestMs} ms, and the claim says to wait ${state.waitMs}`)
  }
  return problems
}

/** Whether each track with a job that could start has a job, of whichever group and type, that costs more than there is. When it is that
 *  one's turn, it is waited for, also by workers of other types: otherwise jobs that cost little would use up what it saves for. */
async function mayWaitForCost(reference: Reference, request: ClaimRequest, queue: string): Promise<boolean> {
  let isFound = false
  for (const track of reference.memory.tracks.get(queue) ?? []) {
    let canStart = false
    let mayWait = false
    for (const group of track.held.keys()) {
      const [own, ...ofTypes] = await lookAt(reference, request, { queue, track, group })
      canStart ||= own!.more
      mayWait ||= countsCost(reference.memory, queue, track) && [own!, ...ofTypes].some(({ waitMs }) => waitMs !== null)
    }
    if (canStart && !mayWait) return false
    isFound ||= mayWait
  }
  return isFound
}

/** When the first track has a job that may start, by whichever of its groups a store looks at; null when only an event brings one. */
async function latestWait(reference: Reference, request: ClaimRequest, queue: string): Promise<number | null> {
  const { memory } = reference
  const waits: number[] = []
  for (const track of memory.tracks.get(queue) ?? []) {
    if (isFull(memory, queue, track)) continue
    const ofTrack: number[] = []
    for (const group of track.held.keys()) {
      if (isGroupFull(memory, queue, group)) continue
      const [own, ...ofTypes] = await lookAt(reference, request, { queue, track, group })
      if (own!.waitMs !== null) ofTrack.push(own!.waitMs, ...ofTypes.flatMap(({ waitMs }) => waitMs ?? []))
    }
    if (ofTrack.length > 0) waits.push(Math.max(...ofTrack))
  }
  return waits.length === 0 ? null : Math.min(...waits)
}

/** What the memory store says about one group to who asks; and, where it matters what jobs cost, to workers of each type. */
async function lookAt(
  { store, memory }: Reference,
  request: ClaimRequest,
  { queue, track, group }: { readonly queue: string; readonly track: Track; readonly group: string },
): Promise<readonly FlowState[]> {
  const types = countsCost(memory, queue, track) ? track.held.get(group)!.values.map(({ facts }) => facts.type) : []
  const states: FlowState[] = []
  for (const asked of [request, ...[...new Set(types)].map((type) => ({ ...request, types: [type], batches: [] }))]) {
    offerEach(memory, queue, (other, name) => other === track && name === group)
    states.push((await store.claim({ ...asked, queues: [{ queue, limit: 0 }] })).flow![0]!)
  }
  return states
}

function countsCost(memory: Memory, queue: string, { limits }: Track): boolean {
  const rates = [`queue:${queue}`, ...limits].map((name) => memory.limits.get(name)?.settings.rate)
  return [...rates, groupSettings(memory, queue).rate].some((rate) => rate?.counts === 'cost')
}

/** Whether a slot of one of its limits must come free first: then a store need not look at its groups. */
function isFull(memory: Memory, queue: string, { limits }: Track): boolean {
  return [`queue:${queue}`, ...limits].some((name) => {
    const limit = memory.limits.get(name)
    if (limit === undefined) return false
    if (limit.breaker.forced === 'open') return true
    const most = concurrencyNow(limit)
    return most !== null && memory.running.values.filter((job) => limitsOf(job).includes(name)).length >= most
  })
}

/** Whether a job of the group must end, or go on, first. The memory store names a time that the group was told to wait for all the same. */
function isGroupFull(memory: Memory, queue: string, group: string): boolean {
  if (group === '') return false
  const { ordered } = groupSettings(memory, queue)
  const isOf = (job: Job) => job.facts.queue === queue && groupOf(job) === group
  if (ordered && memory.timed.values.some((job) => job.fence > 0 && isOf(job))) return true
  if (ordered && (memory.tracks.get(queue) ?? []).filter(({ held }) => held.has(group)).length > 1) return true
  const most = mostOf(memory, queue, group)
  return most !== null && memory.running.values.filter(isOf).length >= most
}

/** How many jobs of a group may run; null for any number. */
function mostOf(memory: Memory, queue: string, group: string): number | null {
  const { ordered, concurrency } = groupSettings(memory, queue)
  if (group === '') return null
  return ordered ? 1 : (memory.groups.get(queue)?.get(group)?.override?.concurrency ?? concurrency)
}

/** Gives the turn to the group of a job alone, in its own track. */
function steer(memory: Memory, queue: string, { flow }: ClaimedJob): void {
  const tracks = memory.tracks.get(queue) ?? []
  const isPlain = flow === undefined || isDeepStrictEqual(flow, COUNTED)
  const own = isPlain ? -1 : tracks.findIndex(({ limits }) => isDeepStrictEqual([...limits], [...flow.limits]))
  offerEach(memory, queue, (track, group) => track === tracks[own] && group === (flow?.group ?? ''))
  // The track of the queue's plain jobs comes behind the others.
  memory.flowClaims.set(queue, own === -1 ? tracks.length : own)
}

function offerEach(memory: Memory, queue: string, isOffered: (track: Track, group: string) => boolean): void {
  for (const track of memory.tracks.get(queue) ?? []) {
    track.turns.clear()
    track.naps.clear()
    for (const group of track.held.keys()) if (isOffered(track, group)) track.turns.set(group, null)
  }
}
