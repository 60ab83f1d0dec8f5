// Real concurrent callers: producers, workers and settlements on several connections, many of them in transactions that stay open for a
// moment. What surely ran concurrently is counted by the callers: a job is in hand from the answer of its claim until its settlement is sent.

import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { NO_GROUP_SETTINGS, NO_LIMIT, NO_QUEUE_FLOW } from '../../src/core/flow/settings.js'
import type { ClaimedJob, NewJob } from '../../src/core/job.js'
import type { Store } from '../../src/core/store.js'
import { seededRandom } from '../../src/testing/seeded-random.js'
import { newJob, succeeded } from '../../src/testing/store-suite/samples.js'

const QUEUES = ['alone', 'line', 'wide'] as const
const GROUPS = ['a', 'b', 'c'] as const
const SHARED = 2
/** Nothing has moved for this long, so nothing will. */
const STILL_MS = 1_200

export interface Race {
  readonly stores: readonly Store[]
  /** A connection for each caller's own transactions. */
  readonly clients: readonly pg.Client[]
  readonly seed: number
  /** How many jobs there are at most, and for how long they are sent. */
  readonly jobs: number
  readonly untilMs: number
}

/** Runs a race; resolves with what went wrong, and how many jobs started. */
export async function raceFlow(race: Race): Promise<{ problems: string[]; starts: number }> {
  const { stores } = race
  await prepare(stores[0]!)
  const track = new Course()
  const work = stores.map((store, index) => workAlong(store, race.clients[index]!, race.seed * 10 + index, track))
  await Promise.all([produce(race, 0, track), produce(race, 1, track)])
  track.isSent = true
  await Promise.all(work)
  if (track.problems.length === 0 && track.open.size > 0) {
    track.problems.push(`${track.open.size} jobs were left behind, such as ${[...track.open.keys()][0]}`)
  }
  return { problems: track.problems, starts: track.starts }
}

async function prepare(store: Store): Promise<void> {
  const groups = { ...NO_GROUP_SETTINGS, concurrency: 1 }
  await store.setLimit('shared', { ...NO_LIMIT, concurrency: SHARED }, 'ada')
  await store.setQueue('alone', { limits: {}, flow: { ...NO_QUEUE_FLOW, groups } }, 'ada')
  const ordered = { ...NO_GROUP_SETTINGS, ordered: true }
  await store.setQueue('line', { limits: {}, flow: { ...NO_QUEUE_FLOW, groups: ordered } }, 'ada')
}

/** What the callers know together. */
class Course {
  readonly problems: string[] = []
  /** Jobs that were written and have not been settled, by their number of their group. */
  readonly open = new Map<string, { readonly place: string; readonly order: number }>()
  readonly #inHand = new Map<string, number>()
  starts = 0
  isSent = false
  movedMs = performance.now()
  #order = 0

  wrote({ id, queue, flow }: NewJob): void {
    this.open.set(id, { place: `${queue} ${flow?.group}`, order: ++this.#order })
    this.movedMs = performance.now()
  }

  get isOver(): boolean {
    if (this.problems.length > 0) return true
    return this.isSent && (this.open.size === 0 || performance.now() - this.movedMs > STILL_MS)
  }

  began(job: ClaimedJob): void {
    this.starts++
    this.movedMs = performance.now()
    for (const [scope, most] of scopesOf(job)) {
      const inHand = (this.#inHand.get(scope) ?? 0) + 1
      this.#inHand.set(scope, inHand)
      if (inHand > most) this.problems.push(`${inHand} jobs of ${scope} ran concurrently, of at most ${most}`)
    }
    if (job.queue !== 'line') return
    const own = this.open.get(job.id)
    const earlier = [...this.open].find(
      ([id, { place, order }]) => id !== job.id && place === own?.place && order < own.order,
    )
    if (earlier !== undefined)
      this.problems.push(`${job.id} started before ${earlier[0]}, which comes first in its group`)
  }

  ends(job: ClaimedJob): void {
    for (const [scope] of scopesOf(job)) this.#inHand.set(scope, this.#inHand.get(scope)! - 1)
    this.open.delete(job.id)
    this.movedMs = performance.now()
  }
}

function scopesOf({ queue, flow }: ClaimedJob): [scope: string, most: number][] {
  const group: [string, number][] = queue === 'wide' ? [] : [[`group ${queue}/${flow?.group}`, 1]]
  return flow?.limits.includes('shared') ? [...group, ['the limit "shared"', SHARED]] : group
}

async function produce({ stores, clients, seed, jobs, untilMs }: Race, number: number, course: Course): Promise<void> {
  const random = seededRandom(seed * 100 + number)
  const pick = <T>(values: readonly T[]): T => values[Math.floor(random.float() * values.length)]!
  // Each producer has groups of its own, so that the order of enqueues is known.
  const groups = GROUPS.map((group) => `${group}${number}`)
  for (let sent = 0; sent < jobs / 2 && performance.now() < untilMs && !course.isOver; sent++) {
    const queue = pick(QUEUES)
    const limits = queue === 'wide' || random.float() < 0.3 ? ['shared'] : []
    const job = newJob({ queue, flow: { group: pick(groups), limits, cost: 1 } })
    const isOwn = random.float() < 0.3
    await attempt<unknown>(course, () => {
      // From here on it may be claimed before the answer comes.
      course.wrote(job)
      if (!isOwn) return stores[number]!.enqueue([job])
      return inTransaction(clients.at(-1 - number)!, random.float() * 6, (tx) => stores[number]!.enqueue([job], { tx }))
    })
    await sleep(random.float() * 3)
  }
}

async function workAlong(store: Store, client: pg.Client, seed: number, course: Course): Promise<void> {
  const random = seededRandom(seed)
  while (!course.isOver) {
    const queues = QUEUES.map((queue) => ({ queue, limit: 1 + Math.floor(random.float() * 3) }))
    const claim = await attempt(course, () =>
      store.claim({ queues, types: null, worker: `w${seed}`, leaseMs: 600_000 }),
    )
    const jobs = claim?.jobs ?? []
    for (const job of jobs) course.began(job)
    if (jobs.length === 0) await sleep(1)
    else if (random.float() < 0.3) await sleep(random.float() * 3)
    for (const job of jobs) {
      const settle = (options: { tx?: pg.Client }) => {
        // Its slot is free with the commit at the earliest, which is sent after this.
        course.ends(job)
        return store.settle([succeeded(job)], options)
      }
      const isOwn = random.float() < 0.5
      await attempt<unknown>(course, () =>
        isOwn ? settleInside(client, random.float() * 6, store, job, course) : settle({}),
      )
    }
  }
}

async function settleInside(
  client: pg.Client,
  ms: number,
  store: Store,
  job: ClaimedJob,
  course: Course,
): Promise<void> {
  await client.query('BEGIN')
  await store.settle([succeeded(job)], { tx: client })
  await sleep(ms)
  course.ends(job)
  await client.query('COMMIT')
}

async function inTransaction(client: pg.Client, ms: number, work: (tx: pg.Client) => Promise<unknown>): Promise<void> {
  await client.query('BEGIN')
  await work(client)
  await sleep(ms)
  await client.query('COMMIT')
}

/** Nothing here may fail: no caller waits for another longer than a moment. */
async function attempt<T>(course: Course, run: () => Promise<T>): Promise<T | null> {
  try {
    return await run()
  } catch (error) {
    course.problems.push(`a call failed: ${(error as Error).message}`)
    return null
  }
}
