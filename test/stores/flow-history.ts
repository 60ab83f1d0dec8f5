// Random histories of flow control, checked by a bookkeeping of their own: no limit is passed, no ordered group overtakes itself, no rate
// starts too many, nothing claimable is called waiting, and everything ends.

import { NO_GROUP_SETTINGS, NO_LIMIT, NO_QUEUE_FLOW, type QueueFlow, type Rate } from '../../src/core/flow/settings.js'
import type { ClaimedJob, NewJob, SettledJob } from '../../src/core/job.js'
import type { Store } from '../../src/core/store.js'
import type { ManualClock } from '../../src/testing/manual-clock.js'
import { seededRandom } from '../../src/testing/seeded-random.js'
import { dead, newJob, released, retrying, snoozed, succeeded } from '../../src/testing/store-suite/samples.js'

/** `bare` has plain jobs alone, and flow control at times. */
const QUEUES = ['plain', 'bare', 'tenants', 'ordered'] as const
const GROUPS = ['a', 'b', 'c', 'd'] as const
const LIMITS = ['api', 'mail'] as const
const RATE: Rate = { limit: 20, perMs: 1_000, burst: 3, counts: 'starts' }
const STEPS = 150

interface Known {
  readonly job: NewJob
  readonly order: number
  state: 'ready' | 'running' | 'timed' | 'over'
  hasStarted: boolean
  dueMs: number
}

/** The settings in force. */
interface Rules {
  readonly flows: Map<string, QueueFlow>
  readonly limits: Map<string, number | null>
  readonly paused: Set<string>
}

/** Plays one history; resolves with what went wrong, and how many jobs started. */
export async function playFlow(
  store: Store,
  clock: ManualClock,
  seed: number,
): Promise<{ problems: string[]; starts: number }> {
  const random = seededRandom(seed)
  const pick = <T>(values: readonly T[]): T => values[Math.floor(random.float() * values.length)]!
  const jobs = new Map<string, Known>()
  const held = new Map<string, ClaimedJob>()
  /** When jobs of the limit with a rate, and of each group with one, started. */
  const startsOf = new Map<string, number[]>()
  const problems: string[] = []
  const rules: Rules = { flows: new Map(), limits: new Map(), paused: new Set() }
  let starts = 0

  const running = (matches: (job: NewJob) => boolean) =>
    [...held.keys()].filter((id) => matches(jobs.get(id)!.job)).length
  const setQueue = async (queue: string) => {
    if (queue === 'bare' && random.float() < 0.5) {
      rules.flows.set(queue, NO_QUEUE_FLOW)
      await store.setQueue(queue, { limits: {} }, 'ada')
      return
    }
    const ordered = queue === 'ordered'
    const onRetry = pick(['wait', 'pass'] as const)
    const concurrency = ordered ? null : pick([1, 2, null])
    const rate = queue === 'tenants' ? RATE : null
    const groups = { ...NO_GROUP_SETTINGS, ordered, onRetry, concurrency, rate }
    const flow = { ...NO_QUEUE_FLOW, concurrency: pick([2, 4, null]), groups }
    rules.flows.set(queue, flow)
    await store.setQueue(queue, { limits: {}, flow }, 'ada')
  }
  const setLimit = async (name: string) => {
    const concurrency = pick([1, 3, null])
    rules.limits.set(name, concurrency)
    await store.setLimit(name, { ...NO_LIMIT, concurrency, rate: name === 'api' ? RATE : null }, 'ada')
  }
  const enqueue = async () => {
    const queue = pick(QUEUES)
    const group = queue === 'plain' || queue === 'bare' ? null : pick(GROUPS)
    const limits = queue === 'bare' ? [] : pick([[], [], ['api'], ['mail'], ['api', 'mail']])
    const isPlain = group === null && limits.length === 0
    const job = newJob({
      queue,
      priority: pick([0, 0, 5]),
      when: pick([null, null, null, { delayMs: 200 }]),
      ...(isPlain ? {} : { flow: { group, limits, cost: 1 } }),
    })
    await store.enqueue([job])
    const isTimed = job.when !== null
    const dueMs = clock.now() + 200
    jobs.set(job.id, { job, order: jobs.size, state: isTimed ? 'timed' : 'ready', hasStarted: false, dueMs })
  }
  const isDry = (name: string) => tokens(startsOf.get(name) ?? [], clock.now()) < 1 - 1e-6
  /** The reason why a job may not start, by these rules; null when it may. */
  const obstacle = ({ job, order }: Known): string | null => {
    const { queue, flow } = job
    const { concurrency, groups } = rules.flows.get(queue)!
    if (concurrency !== null && running((other) => other.queue === queue) >= concurrency) return 'queue'
    for (const name of flow?.limits ?? []) {
      const most = rules.limits.get(name) ?? null
      if (most !== null && running((other) => other.flow?.limits.includes(name) === true) >= most) return name
      if (name === 'api' && isDry(name)) return 'rate'
    }
    const group = flow?.group ?? null
    if (group === null) return null
    const isOfGroup = (other: NewJob) => other.queue === queue && other.flow?.group === group
    if (rules.paused.has(`${queue} ${group}`)) return 'pause'
    if (queue === 'tenants' && isDry(group)) return 'rate of its group'
    const most = groups.ordered ? 1 : groups.concurrency
    if (most !== null && running(isOfGroup) >= most) return 'group'
    if (!groups.ordered) return null
    const before = [...jobs.values()].filter((other) => other.order < order && isOfGroup(other.job))
    if (before.some(({ state }) => state === 'ready')) return 'order'
    const isWaited = ({ job: other, state, hasStarted }: Known) => isOfGroup(other) && state === 'timed' && hasStarted
    return groups.onRetry === 'wait' && [...jobs.values()].some(isWaited) ? 'retry' : null
  }
  const claim = async () => {
    const queue = pick(QUEUES)
    const limit = pick([1, 2, 5, 50])
    const worker = pick(['w', 'v'])
    const leaseMs = pick([3_600_000, 3_600_000, 3_600_000, 100])
    const answer = await store.claim({ queues: [{ queue, limit }], types: null, worker, leaseMs })
    for (const job of answer.jobs) {
      const known = jobs.get(job.id)!
      const why = obstacle(known)
      if (why !== null) problems.push(`${job.id} of ${queue} started in spite of its ${why}`)
      if (known.state !== 'ready') problems.push(`${job.id} of ${queue} started while ${known.state}`)
      known.state = 'running'
      known.hasStarted = true
      held.set(job.id, job)
      starts++
      const rated = [job.flow?.limits.includes('api') ? 'api' : null, queue === 'tenants' ? job.flow?.group : null]
      for (const name of rated) if (name != null) startsOf.set(name, [...(startsOf.get(name) ?? []), clock.now()])
    }
    const state = answer.flow?.find((each) => each.queue === queue)
    const isStill = state !== undefined && !state.more
    const left = [...jobs.values()].filter((known) => known.job.queue === queue && known.state === 'ready')
    const free = isStill ? left.find((known) => obstacle(known) === null) : undefined
    if (free !== undefined) problems.push(`${free.job.id} of ${queue} could have started and nobody says so`)
  }
  const settle = async () => {
    const job = pick([...held.values()])
    if (job === undefined) return
    const known = jobs.get(job.id)!
    const ends: [(job: ClaimedJob) => SettledJob, Known['state']][] = [
      [(each) => succeeded(each), 'over'],
      [(each) => succeeded(each), 'over'],
      [(each) => dead(each), 'over'],
      [(each) => released(each), 'ready'],
      [(each) => retrying(each, 200), 'timed'],
      [(each) => snoozed(each, 200), 'timed'],
    ]
    const [end, state] = pick(ends)
    await store.settle([end(job)])
    held.delete(job.id)
    known.state = state
    known.dueMs = clock.now() + 200
  }
  const advance = async () => {
    await clock.advance(pick([10, 50, 200]))
    await store.promote(1_000)
    for (const known of jobs.values()) if (known.state === 'timed' && known.dueMs <= clock.now()) known.state = 'ready'
  }
  /** Leases that ran out are taken back, as upkeep does it. */
  const rescue = async () => {
    const { jobs: expired } = await store.expired(100)
    for (const { id } of expired) {
      await store.settle([retrying(held.get(id)!, 200)], { onlyExpired: true })
      held.delete(id)
      const known = jobs.get(id)!
      known.state = 'timed'
      known.dueMs = clock.now() + 200
    }
  }
  const cancel = async () => {
    const known = pick([...jobs.values()].filter(({ state }) => state === 'ready' || state === 'timed'))
    if (known === undefined) return
    await store.cancel([known.job.id], 'ada')
    known.state = 'over'
  }
  const pause = async () => {
    const [queue, group] = [pick(['tenants', 'ordered'] as const), pick(GROUPS)]
    const isPaused = rules.paused.delete(`${queue} ${group}`)
    if (isPaused) return store.resumeGroup(queue, group, 'ada')
    rules.paused.add(`${queue} ${group}`)
    return store.pauseGroup(queue, group, 'ada')
  }

  for (const queue of QUEUES) await setQueue(queue)
  for (const name of LIMITS) await setLimit(name)
  const steps = [enqueue, enqueue, enqueue, claim, claim, claim, settle, settle, advance, rescue, cancel, pause]
  for (let step = 0; step < STEPS && problems.length === 0; step++) {
    await pick(steps)()
    if (random.float() < 0.05) await setQueue(pick(QUEUES))
    if (random.float() < 0.05) await setLimit(pick(LIMITS))
  }
  for (const place of rules.paused) await store.resumeGroup(...(place.split(' ') as [string, string]), 'ada')
  rules.paused.clear()
  const isOpen = () => [...jobs.values()].some(({ state }) => state !== 'over')
  for (let round = 0; round < 2_000 && isOpen() && problems.length === 0; round++) {
    await pick([claim, settle, advance, rescue])()
  }
  if (problems.length === 0 && isOpen()) problems.push('not every job ended')
  return { problems, starts }
}

/** The tokens of RATE after these starts. */
function tokens(startedMs: readonly number[], nowMs: number): number {
  let left = RATE.burst
  let atMs = startedMs[0] ?? nowMs
  for (const ms of [...startedMs, nowMs]) {
    left = Math.min(RATE.burst, left + ((ms - atMs) * RATE.limit) / RATE.perMs)
    atMs = ms
    left -= 1
  }
  return left + 1
}
