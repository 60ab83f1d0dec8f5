// Several callers at the same moment: what each of them was answered about a job is explained by some order of the memory store.

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { RedisServer } from '../../lab/servers/redis.js'
import { type Lease, leaseOf, type NewJob, type SettledJob } from '../../src/core/job.js'
import type { CancelResult } from '../../src/core/operator-store.js'
import type { Store } from '../../src/core/store.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import { redisStore } from '../../src/stores/redis/index.js'
import { manualClock } from '../../src/testing/manual-clock.js'
import { seededRandom } from '../../src/testing/seeded-random.js'
import { newJob, OPERATOR, START_MS } from '../../src/testing/store-suite/samples.js'
import { dropSchema, openCleanStore, openPeerStore, testServerUrl } from '../support/postgres.js'
import { openRedis } from '../support/redis.js'
import { explain, type Recorded, tell } from './explain.js'

const schema = `concurrent_${process.pid}`
const url = testServerUrl()
const clock = manualClock(START_MS)
const CALLERS = 4
const CALLS_EACH = 5
const JOBS = 2
/** For a longer search, set HOLDFAST_PROPERTY_RUNS. */
const ROUNDS = Number(process.env.HOLDFAST_PROPERTY_RUNS ?? 50) * 2

const KINDS = ['claim', 'claim', 'settle', 'settle', 'cancel', 'update', 'requeue', 'discard', 'extend', 'get'] as const
const OUTCOMES = ['succeeded', 'ready', 'dead'] as const

describe('concurrent calls on the PostgreSQL store', () => {
  let stores: readonly Store[]
  beforeAll(async () => {
    stores = [await openCleanStore(url, schema, clock), await openPeerStore(url, schema, clock)]
  })
  afterAll(() => dropSchema(url, schema))

  test('are explained, for each job, by some order of the memory store', {
    timeout: 60_000 + ROUNDS * 500,
  }, async () => {
    const kinds = new Set<string>()
    for (let seed = 1; seed <= ROUNDS; seed++) {
      for (const { job, calls } of await runRound(stores, seed)) {
        const order = await explain([job], calls, () => memoryStore({ clock }))
        expect(order, `seed ${seed}, job ${job}: no order explains these calls\n${tell(calls)}`).not.toBe(null)
        for (const { name } of calls) kinds.add(name.split(' ')[0]!)
      }
    }

    expect([...kinds].sort()).toEqual(['enqueue', ...new Set(KINDS)].sort())
  })

  test('that ignore the fence of a settlement are found out', async () => {
    // The fault: a settlement counts for whatever lease the job has.
    const [store] = stores
    let current = 0
    const faulty: Store = {
      ...store!,
      async settle(jobs) {
        const held = await store!.list({ filter: { ids: jobs.map(({ id }) => id) }, limit: 1, before: null })
        if (current === 0 || held.jobs[0]?.state !== 'running') return store!.settle(jobs)
        const [answer] = await store!.settle(jobs.map((job) => ({ ...job, fence: current })))
        return [{ ...answer!, fence: jobs[0]!.fence }]
      },
    }
    const job = newJob({ queue: 'faulty' })
    const recorder = new Recorder(job)
    await recorder.record(faulty, enqueueCall(job))
    await recorder.record(faulty, claimCall(job))
    const [first] = recorder.leases
    await recorder.record(faulty, settleCall(job, first!, 'ready'))
    await recorder.record(faulty, claimCall(job))
    current = recorder.leases[1]!.fence
    await recorder.record(faulty, settleCall(job, first!, 'succeeded'))

    expect(recorder.calls.at(-1)?.answer).toMatchObject([{ result: 'settled', state: 'succeeded' }])
    expect(await explain([job.id], recorder.calls, () => memoryStore({ clock }))).toBe(null)
    expect(await explain([job.id], recorder.calls.slice(0, -1), () => memoryStore({ clock }))).toEqual([0, 1, 2, 3])
  })

  test('that overlapped are explained in either order, and those that followed each other in one only', async () => {
    const job = newJob({ queue: 'order' })
    const recorder = new Recorder(job)
    await recorder.record(stores[0]!, enqueueCall(job))
    await recorder.record(stores[0]!, cancelCall(job))
    await recorder.record(stores[0]!, getCall(job))
    const [written, cancelled, looked] = recorder.calls
    const before = { ...looked!, answer: { state: 'ready', attempt: 0, cancelRequested: false } }
    const overlapping = { ...before, madeAt: cancelled!.madeAt, answeredAt: cancelled!.answeredAt }

    const inTurn = await explain([job.id], [written!, cancelled!, before], () => memoryStore({ clock }))
    const together = await explain([job.id], [written!, cancelled!, overlapping], () => memoryStore({ clock }))

    expect([inTurn, together]).toEqual([null, [0, 2, 1]])
  })
})

/** A call that can be made on any store. */
interface Call {
  readonly name: string
  readonly call: (store: Store) => Promise<unknown>
  /** True for an answer a store may always give, without having done anything: it explains itself. */
  readonly isVoid?: (answer: unknown) => boolean
}

function enqueueCall(job: NewJob): Call {
  return { name: 'enqueue', call: (store) => store.enqueue([job]) }
}

function claimCall(job: NewJob): Call {
  return {
    name: 'claim',
    call: async (store) => {
      const request = { queues: [{ queue: job.queue, limit: 1 }], types: null, worker: 'w', leaseMs: 30_000 }
      const { jobs } = await store.claim(request)
      return jobs.map(({ attempt, crashes, priority, ...job }) => ({ ...leaseOf(job), attempt, crashes, priority }))
    },
    // A claim passes over rows that somebody is busy with.
    isVoid: (answer) => (answer as unknown[]).length === 0,
  }
}

function settleCall(job: NewJob, lease: Lease & { readonly attempt: number }, state: (typeof OUTCOMES)[number]): Call {
  const { id, fence, attempt } = lease
  const settlement =
    state === 'dead'
      ? ({ state, attempt, crashes: 0, reason: 'dropped' } as const)
      : ({ state, attempt: state === 'ready' ? attempt - 1 : attempt, crashes: 0 } as const)
  const settled: SettledJob = {
    id,
    fence,
    queue: job.queue,
    settlement,
    result: null,
    error: null,
    ranMs: 1,
    idempotencyKey: null,
  }
  return {
    name: `settle ${fence} ${state}`,
    call: (store) => store.settle([settled]),
    isVoid: (answer) => (answer as { result: string }[])[0]?.result === 'locked',
  }
}

function cancelCall({ id }: NewJob): Call {
  return { name: 'cancel', call: (store) => store.cancel([id], OPERATOR) }
}

function getCall({ id }: NewJob): Call {
  return {
    name: 'get',
    call: async (store) => {
      const view = await store.get(id)
      return view && { state: view.state, attempt: view.attempt, cancelRequested: view.cancelRequested }
    },
  }
}

/** Records the calls on one job, of all callers. */
class Recorder {
  readonly job: NewJob
  readonly calls: Recorded[] = []
  readonly leases: (Lease & { readonly attempt: number })[] = []
  static #time = 0

  constructor(job: NewJob) {
    this.job = job
  }

  async record(store: Store, { name, call, isVoid }: Call): Promise<void> {
    const madeAt = ++Recorder.#time
    const answer = await call(store)
    const answeredAt = ++Recorder.#time
    if (isVoid?.(answer) === true) return
    this.calls.push({ name, call, answer, madeAt, answeredAt })
    if (name === 'claim') this.leases.push(...(answer as (Lease & { attempt: number })[]))
  }
}

describe('concurrent calls on the Redis store', () => {
  let server: RedisServer
  let stores: readonly Store[] = []
  beforeAll(async () => {
    server = await openRedis()
    stores = [await redisStore(server.url, { clock }), await redisStore(server.url, { clock })]
  })
  afterAll(async () => {
    await Promise.all(stores.map((store) => store.close()))
    await server.close()
  })

  test('are explained, for each job, by some order of the memory store', {
    timeout: 60_000 + ROUNDS * 500,
  }, async () => {
    for (let seed = 1; seed <= ROUNDS; seed++) {
      for (const { job, calls } of await runRound(stores, seed)) {
        const order = await explain([job], calls, () => memoryStore({ clock }))
        expect(order, `seed ${seed}, job ${job}: no order explains these calls\n${tell(calls)}`).not.toBe(null)
      }
    }
  })
})

async function runRound(
  stores: readonly Store[],
  seed: number,
): Promise<readonly { readonly job: string; readonly calls: readonly Recorded[] }[]> {
  const recorders = Array.from({ length: JOBS }, (_, index) => new Recorder(newJob({ queue: `q${seed}-${index}` })))
  for (const recorder of recorders) await recorder.record(stores[0]!, enqueueCall(recorder.job))
  await Promise.all(
    Array.from({ length: CALLERS }, async (_, caller) => {
      const random = seededRandom(seed * CALLERS + caller)
      const pick = <T>(list: readonly T[]): T => list[Math.floor(random.float() * list.length)]!
      for (let call = 0; call < CALLS_EACH; call++) {
        const recorder = pick(recorders)
        await recorder.record(stores[caller % stores.length]!, nextCall(recorder, pick))
      }
    }),
  )
  // Upkeep grants the cancels that could not be, because a row was locked by a settlement at that moment: none may be lost.
  await stores[0]!.promote(100)
  for (const recorder of recorders) await recorder.record(stores[0]!, getCall(recorder.job))
  return recorders.map(({ job, calls }) => ({ job: job.id, calls: calls.map((call) => asKept(call, calls)) }))
}

/** A cancel that was asked for while another call held the row's lock, or moved the job, is granted after it, at the latest by upkeep. */
function asKept(cancel: Recorded, calls: readonly Recorded[]): Recorded {
  const [{ id, result }] = cancel.name === 'cancel' ? (cancel.answer as [CancelResult]) : [{ id: '', result: '' }]
  if (result !== 'asked') return cancel
  const isBeside = ({ name, madeAt, answeredAt }: Recorded) =>
    /^(settle|extend|claim|requeue|update)/.test(name) && madeAt < cancel.answeredAt && answeredAt > cancel.madeAt
  if (!calls.some(isBeside)) return cancel
  return { ...cancel, otherAnswer: [{ id, result: 'cancelled' }], answeredAt: calls.at(-1)!.madeAt - 1 }
}

function nextCall({ job, leases }: Recorder, pick: <T>(list: readonly T[]) => T): Call {
  const { id } = job
  const lease = leases.length > 0 ? pick(leases.slice(-2)) : { id, fence: 1, queue: job.queue, attempt: 1 }
  switch (pick(KINDS)) {
    case 'claim':
      return claimCall(job)
    case 'settle':
      return settleCall(job, lease, pick(OUTCOMES))
    case 'cancel':
      return cancelCall(job)
    case 'update': {
      const priority = pick([1, 2, 3])
      return { name: `update ${priority}`, call: (store) => store.update(id, { priority }, OPERATOR) }
    }
    case 'requeue':
      return { name: 'requeue', call: (store) => store.requeue([id], OPERATOR) }
    case 'discard':
      return { name: 'discard', call: (store) => store.discard([id], OPERATOR) }
    case 'extend':
      return { name: `extend ${lease.fence}`, call: (store) => store.extend([lease], 60_000) }
    case 'get':
      return getCall(job)
  }
}
