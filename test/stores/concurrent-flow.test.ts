// Several callers at the same moment on the jobs of one group: what all of them were answered is explained by some order of the memory
// store, and what is left can be claimed afterwards, as there.

import { isDeepStrictEqual } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { RedisServer } from '../../lab/servers/redis.js'
import { type GroupSettings, NO_GROUP_SETTINGS, NO_LIMIT, NO_QUEUE_FLOW } from '../../src/core/flow/settings.js'
import type { ClaimedJob, NewJob } from '../../src/core/job.js'
import type { CancelResult } from '../../src/core/operator-store.js'
import type { Store } from '../../src/core/store.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import { manualClock } from '../../src/testing/manual-clock.js'
import { seededRandom } from '../../src/testing/seeded-random.js'
import {
  dead,
  newJob,
  OPERATOR,
  released,
  retrying,
  START_MS,
  succeeded,
} from '../../src/testing/store-suite/samples.js'
import { dropSchema, openCleanStore, openPeerStore, testServerUrl } from '../support/postgres.js'
import { openCleanStore as openCleanRedis, openPeerStore as openPeerRedis, openRedis } from '../support/redis.js'
import { explain, type Recorded, tell } from './explain.js'

const schema = `concurrent_flow_${process.pid}`
const url = testServerUrl()
let server: RedisServer
const STORES = [
  {
    name: 'PostgreSQL',
    open: async () => [await openCleanStore(url, schema, clock), await openPeerStore(url, schema, clock)],
    end: () => dropSchema(url, schema),
  },
  {
    name: 'Redis',
    open: async () => {
      server = await openRedis()
      return [await openCleanRedis(server, clock), await openPeerRedis(server, clock)]
    },
    end: async () => server.close(),
  },
] as const
const clock = manualClock(START_MS)
const CALLERS = 3
const CALLS_EACH = 4
const JOBS = 3
const GROUP = 'acme'
/** For a longer search, set HOLDFAST_PROPERTY_RUNS. */
const ROUNDS = Number(process.env.HOLDFAST_PROPERTY_RUNS ?? 50)

const RULES: readonly Partial<GroupSettings>[] = [
  { concurrency: 1 },
  { concurrency: 2 },
  { ordered: true },
  { ordered: true, onRetry: 'pass' },
  { ordered: true, onDead: 'stop' },
]
const KINDS = [
  ...(['claim', 'claim', 'claim', 'settle', 'settle', 'settle', 'cancel', 'update', 'requeue'] as const),
  ...(['pause', 'resume', 'resume', 'limit'] as const),
]
const ENDS = { succeeded, released, dead, retrying }

describe.each(STORES)('concurrent calls on the jobs of one group of a $name store', ({ open, end }) => {
  let stores: readonly Store[]
  beforeAll(async () => {
    stores = await open()
  })
  afterAll(async () => {
    await Promise.all(stores.map((store) => store.close()))
    await end()
  })

  test('are explained by some order of the memory store', { timeout: 60_000 + ROUNDS * 2_000 }, async () => {
    const kinds = new Set<string>()
    for (let seed = 1; seed <= ROUNDS; seed++) {
      const { jobs, calls } = await runRound(stores, seed)
      const order = await explain(jobs, calls, () => memoryStore({ clock }))
      expect(order, `seed ${seed}: no order explains these calls\n${tell(calls)}`).not.toBe(null)
      for (const { name } of calls) kinds.add(name.split(' ')[0]!)
    }

    expect([...kinds].sort()).toEqual(['enqueue', 'set', ...new Set(KINDS)].sort())
  })

  test('that give two jobs of a group whose concurrency is one are found out', async () => {
    const [store] = stores
    const faulty: Store = {
      ...store!,
      // The fault: the claim takes the jobs of the group from a queue without its rules.
      claim: (request) =>
        store!.claim({ ...request, queues: request.queues.map(({ limit }) => ({ queue: 'free', limit })) }),
    }
    const jobs = [0, 1].map(() => newJob({ queue: 'free', flow: { group: GROUP, limits: [], cost: 1 } }))
    const recorder = new Recorder('free')
    await recorder.record(store!, setCall('free', { concurrency: 1 }), { isKept: true })
    for (const job of jobs) await recorder.record(store!, enqueueCall(job))
    await store!.setQueue('free', { limits: {} }, OPERATOR)
    await recorder.record(faulty, claimCall('free', 2), { isKept: true })

    expect(recorder.held).toHaveLength(2)
    const ids = jobs.map(({ id }) => id)
    expect(await explain(ids, recorder.calls, () => memoryStore({ clock }))).toBe(null)
  })
})

interface Call {
  readonly name: string
  readonly call: (store: Store) => Promise<unknown>
  /** True for an answer that a store may give without having done anything. */
  readonly isVoid?: (answer: unknown) => boolean
}

/** A limit of the round's own: jobs that an earlier round left running must not hold its slots. */
function sharedBy(queue: string): string {
  return `shared-by-${queue}`
}

function setCall(queue: string, rules: Partial<GroupSettings>): Call {
  const flow = { ...NO_QUEUE_FLOW, groups: { ...NO_GROUP_SETTINGS, ...rules } }
  return {
    name: `set ${JSON.stringify(rules)}`,
    call: async (store) => {
      await store.setLimit(sharedBy(queue), { ...NO_LIMIT, concurrency: 2 }, OPERATOR)
      await store.setQueue(queue, { limits: {}, flow }, OPERATOR)
    },
  }
}

function enqueueCall(job: NewJob): Call {
  return { name: 'enqueue', call: (store) => store.enqueue([job]) }
}

/** An empty answer means nothing while others are busy with the rows; the last claims of a round are held to it. */
function claimCall(queue: string, limit: number): Call {
  return {
    name: `claim ${limit}`,
    call: async (store) =>
      (await store.claim({ queues: [{ queue, limit }], types: null, worker: 'w', leaseMs: 60_000 })).jobs,
    isVoid: (answer) => (answer as unknown[]).length === 0,
  }
}

/** Records the calls of one round, of all callers. */
class Recorder {
  readonly queue: string
  readonly calls: Recorded[] = []
  readonly held: ClaimedJob[] = []
  static #time = 0

  constructor(queue: string) {
    this.queue = queue
  }

  async record(store: Store, { name, call, isVoid }: Call, { isKept = false } = {}): Promise<unknown> {
    const madeAt = ++Recorder.#time
    const answer = await call(store)
    const answeredAt = ++Recorder.#time
    if (!isKept && isVoid?.(answer) === true) return answer
    this.calls.push({ name, call, answer, madeAt, answeredAt })
    if (name.startsWith('claim')) this.held.push(...(answer as ClaimedJob[]))
    return answer
  }
}

async function runRound(
  stores: readonly Store[],
  seed: number,
): Promise<{ readonly jobs: readonly string[]; readonly calls: readonly Recorded[] }> {
  const random = seededRandom(seed)
  const queue = `q${seed}`
  const recorder = new Recorder(queue)
  const [store] = stores
  await recorder.record(store!, setCall(queue, RULES[seed % RULES.length]!))
  const jobs = Array.from({ length: JOBS }, (_, index) => {
    // Which track of a group comes first is a store's own affair, unless the group is ordered.
    const limits =
      RULES[seed % RULES.length]!.ordered === true && random.float() < 0.3 && index > 0 ? [sharedBy(queue)] : []
    return newJob({ queue, flow: { group: GROUP, limits, cost: 1 } })
  })
  for (const job of jobs) await recorder.record(store!, enqueueCall(job))
  await Promise.all(
    Array.from({ length: CALLERS }, async (_, caller) => {
      const own = seededRandom(seed * CALLERS + caller)
      const pick = <T>(list: readonly T[]): T => list[Math.floor(own.float() * list.length)]!
      for (let call = 0; call < CALLS_EACH; call++) {
        await recorder.record(stores[caller % stores.length]!, nextCall(recorder, jobs, pick))
      }
    }),
  )
  await drain(recorder, store!)
  const calls = recorder.calls.map((call) => asKept(call, recorder.calls))
  return { jobs: jobs.map(({ id }) => id), calls }
}

/** Whatever may run does so now, one claim after the other, until nothing is left. Nothing may have been forgotten. */
async function drain(recorder: Recorder, store: Store): Promise<void> {
  // Upkeep grants the cancels that could not be, because a row was locked at that moment.
  await store.promote(100)
  for (let round = 0; round < JOBS * 2; round++) {
    const jobs = await recorder.record(store, claimCall(recorder.queue, 5), { isKept: true })
    if ((jobs as unknown[]).length === 0) return
    for (const job of jobs as ClaimedJob[]) await recorder.record(store, settleCall(job, 'succeeded'))
  }
}

function settleCall(job: ClaimedJob, end: keyof typeof ENDS): Call {
  const settled = end === 'retrying' ? retrying(job, 60_000) : ENDS[end](job)
  return {
    name: `settle ${job.id.slice(-4)} ${job.fence} ${end}`,
    call: (store) => store.settle([settled]),
    isVoid: (answer) =>
      isDeepStrictEqual(
        (answer as { result: string }[]).map(({ result }) => result),
        ['locked'],
      ),
  }
}

/** A cancel that was asked for while another call held the row is granted after it. */
function asKept(cancel: Recorded, calls: readonly Recorded[]): Recorded {
  const [{ id, result }] = cancel.name.startsWith('cancel')
    ? (cancel.answer as [CancelResult])
    : [{ id: '', result: '' }]
  if (result !== 'asked') return cancel
  const isBeside = ({ name, madeAt, answeredAt }: Recorded) =>
    /^(settle|claim|requeue|update)/.test(name) && madeAt < cancel.answeredAt && answeredAt > cancel.madeAt
  if (!calls.some(isBeside)) return cancel
  return { ...cancel, otherAnswer: [{ id, result: 'cancelled' }], answeredAt: calls.at(-1)!.madeAt - 1 }
}

function nextCall({ queue, held }: Recorder, jobs: readonly NewJob[], pick: <T>(list: readonly T[]) => T): Call {
  const { id } = pick(jobs)
  const short = id.slice(-4)
  switch (pick(KINDS)) {
    case 'claim':
      return claimCall(queue, pick([1, 2]))
    case 'settle':
      return held.length === 0
        ? claimCall(queue, 1)
        : settleCall(pick(held.slice(-2)), pick(['succeeded', 'released', 'dead', 'retrying']))
    case 'cancel':
      return { name: `cancel ${short}`, call: (store) => store.cancel([id], OPERATOR) }
    case 'update': {
      const priority = pick([1, 2])
      return { name: `update ${short} ${priority}`, call: (store) => store.update(id, { priority }, OPERATOR) }
    }
    case 'requeue':
      return { name: `requeue ${short}`, call: (store) => store.requeue([id], OPERATOR) }
    case 'pause':
      return { name: 'pause', call: (store) => store.pauseGroup(queue, GROUP, OPERATOR) }
    case 'resume':
      return { name: 'resume', call: (store) => store.resumeGroup(queue, GROUP, OPERATOR) }
    case 'limit': {
      const concurrency = pick([1, 2])
      const override = { concurrency, rate: null, weight: 1 }
      return { name: `limit ${concurrency}`, call: (store) => store.setGroup(queue, GROUP, override, OPERATOR) }
    }
  }
}
