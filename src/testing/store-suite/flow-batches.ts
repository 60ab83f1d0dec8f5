// Batches of one group where groups run one job at a time: a worker that runs several jobs together gets them in one turn.

import type { ClaimBatch } from '../../core/flow/contract.js'
import type { ClaimedJob, NewJob } from '../../core/job.js'
import type { Store } from '../../core/store.js'
import { type Facts, factsFor } from './context.js'
import {
  claimFlow,
  enqueueGroup,
  type FlowChanges,
  GROUP,
  groupJobs,
  inGroup,
  LIMIT,
  perGroup,
  perSecond,
  setFlow,
  setGroup,
  setLimit,
} from './flow-samples.js'
import { crashed, LEASE_MS, MINUTE_MS, newJob, OPERATOR, QUEUE, retrying, SECOND_MS, succeeded } from './samples.js'
import { claimIds, claimJob, claimJobs, enqueueEach, enqueueJob } from './steps.js'

const TYPE = 'send_email'
const ALONE = { groups: { concurrency: 1 } } as const
const ORDERED = { groups: { ordered: true } } as const
const PASSING = { groups: { ordered: true, onRetry: 'pass' } } as const
const EITHER: readonly (readonly [name: string, FlowChanges])[] = [
  ['a group of one job at a time', ALONE],
  ['an ordered group', ORDERED],
]

function upTo(max: number, type: string = TYPE): { readonly batches: readonly ClaimBatch[] } {
  return { batches: [{ type, max }] }
}

/** Brings the first job of the queue back as one that was lost with its worker. */
async function loseFirst(store: Store): Promise<string> {
  const job = await claimJob(store)
  await store.settle([{ ...crashed(job), settlement: { state: 'ready', attempt: 1, crashes: 1 } }])
  return job.id
}

const turns: Facts = {
  ...factsFor(
    EITHER,
    ([name]) => `${name} gives a batch in one turn, in its order`,
    async ({ store, expect }, [, flow]) => {
      await setFlow(store, flow)
      const ids = await enqueueGroup(store, 5)

      expect(await claimIds(store, upTo(3))).toEqual(ids.slice(0, 3))
    },
  ),

  ...factsFor(
    EITHER,
    ([name]) => `${name} is busy until the last job of its batch is settled`,
    async ({ store, expect }, [, flow]) => {
      await setFlow(store, flow)
      const ids = await enqueueGroup(store, 5)
      const batch = await claimJobs(store, upTo(3))

      for (const job of batch) {
        expect(await claimIds(store, upTo(3))).toEqual([])
        await store.settle([succeeded(job)])
      }
      expect(await claimIds(store, upTo(3))).toEqual(ids.slice(3))
    },
  ),

  ...factsFor(
    EITHER,
    ([name]) => `${name} gives one job to a claim that asks for no batches`,
    async ({ store, expect }, [, flow]) => {
      await setFlow(store, flow)
      const [first] = await enqueueGroup(store, 3)

      expect(await claimIds(store)).toEqual([first])
      expect(await claimIds(store, upTo(3))).toEqual([])
    },
  ),

  'a batch ends with the room of its claim, and its group is full all the same': async ({ store, expect }) => {
    await setFlow(store, ALONE)
    const ids = await enqueueGroup(store, 5)

    const { ids: taken, state } = await claimFlow(store, { ...upTo(4), limit: 2 })

    expect(taken).toEqual(ids.slice(0, 2))
    expect(state).toEqual({ queue: QUEUE, more: false, waitMs: null })
    expect(await claimIds(store, upTo(4))).toEqual([])
  },

  'a batch of at most one is one job': async ({ store, expect }) => {
    await setFlow(store, ALONE)
    await enqueueGroup(store, 3)

    expect(await claimIds(store, upTo(1))).toHaveLength(1)
  },

  'jobs of a type that is not batched come one at a time': async ({ store, expect }) => {
    await setFlow(store, ALONE)
    await enqueueGroup(store, 3)

    expect(await claimIds(store, upTo(3, 'other'))).toHaveLength(1)
  },

  'groups that may run more take no batches: their concurrency counts jobs': async ({ store, expect }) => {
    await setFlow(store, { groups: { concurrency: 2 } })
    await enqueueGroup(store, 5)

    expect(await claimIds(store, upTo(5))).toHaveLength(2)
  },

  'a group whose own concurrency is 1 gives batches, and one that may run more gives as many as it may': async ({
    store,
    expect,
  }) => {
    await setFlow(store, { groups: { concurrency: 2 } })
    await setGroup(store, 'alone', { concurrency: 1 })
    await store.enqueue([...groupJobs(5, 'alone'), ...groupJobs(5, 'wide')])

    expect(perGroup(await claimJobs(store, upTo(4)))).toEqual({ alone: 4, wide: 2 })
  },

  'each of several groups gives its batch': async ({ store, expect }) => {
    await setFlow(store, ALONE)
    await store.enqueue(['a', 'b', 'c'].flatMap((group) => groupJobs(5, group)))

    expect(perGroup(await claimJobs(store, upTo(4)))).toEqual({ a: 4, b: 4, c: 4 })
  },

  'the jobs of a batch come one after the other in the answer': async ({ store, expect }) => {
    await setFlow(store, ALONE)
    for (let round = 0; round < 3; round++) for (const group of ['a', 'b']) await enqueueGroup(store, 1, group)

    const groups = (await claimJobs(store, upTo(3))).map(({ flow }) => flow!.group)

    expect(groups.join('')).toBe(groups[0] === 'a' ? 'aaabbb' : 'bbbaaa')
  },

  'each job of a batch says how many were taken together': async ({ store, expect }) => {
    await setFlow(store, ALONE)
    await store.enqueue([...groupJobs(5, 'a'), ...groupJobs(2, 'b'), ...groupJobs(1, 'c')])

    const jobs = await claimJobs(store, upTo(3))

    const sizes = jobs.map(({ flow, batch }) => `${flow!.group}${batch ?? ' alone'}`)
    expect(sizes.sort()).toEqual(['a3', 'a3', 'a3', 'b2', 'b2', 'c alone'])
  },

  'jobs that were not taken as a batch say nothing of one': async ({ store, expect }) => {
    await setFlow(store, { groups: { concurrency: 3 } })
    await enqueueGroup(store, 3)

    expect((await claimJobs(store, upTo(3))).map(({ batch }) => batch ?? null)).toEqual([null, null, null])
  },

  'a batch is one turn: the next claim is for the other groups': async ({ store, expect }) => {
    await setFlow(store, ALONE)
    await store.enqueue(['a', 'b', 'c'].flatMap((group) => groupJobs(20, group)))

    const turnOf: string[] = []
    for (let claims = 0; claims < 6; claims++) {
      const jobs = await claimJobs(store, { ...upTo(4), limit: 4 })
      turnOf.push(Object.keys(perGroup(jobs)).join())
      await store.settle(jobs.map((job) => succeeded(job)))
    }

    expect(turnOf.slice(0, 3).sort()).toEqual(['a', 'b', 'c'])
    expect(turnOf.slice(3)).toEqual(turnOf.slice(0, 3))
  },

  'a single job of a group waits for one batch of another, not for its backlog': async ({ store, expect }) => {
    await setFlow(store, ALONE)
    await store.enqueue(groupJobs(50, 'flood'))
    const id = await enqueueJob(store, inGroup('single'))

    const started: ClaimedJob[] = []
    for (let claims = 0; claims < 2; claims++) {
      const jobs = await claimJobs(store, { ...upTo(5), limit: 5 })
      started.push(...jobs)
      await store.settle(jobs.map((job) => succeeded(job)))
    }

    expect(started.map((job) => job.id)).toContain(id)
  },
}

/** A job of a group and another type. */
function other(changes: Partial<NewJob> = {}): Partial<NewJob> {
  return { ...inGroup(), type: 'other', ...changes }
}

const members: Facts = {
  'a batch of an ordered group ends before a job of another type': async ({ store, expect }) => {
    await setFlow(store, ORDERED)
    const ids = await enqueueEach(store, [inGroup(), inGroup(), other(), inGroup()])

    expect(await claimIds(store, upTo(5))).toEqual(ids.slice(0, 2))
  },

  'a batch of an ordered group begins with its first job, whatever its type': async ({ store, expect }) => {
    await setFlow(store, ORDERED)
    const [first] = await enqueueEach(store, [other(), inGroup(), inGroup()])

    expect(await claimIds(store, upTo(5))).toEqual([first])
  },

  'a batch of a group that is not ordered passes over jobs of other types': async ({ store, expect }) => {
    await setFlow(store, ALONE)
    const ids = await enqueueEach(store, [inGroup(), other(), inGroup(), other(), inGroup()])

    expect(await claimIds(store, upTo(5))).toEqual([ids[0], ids[2], ids[4]])
  },

  'a batch has the type of the job that comes first': async ({ store, expect }) => {
    await setFlow(store, ALONE)
    const ids = await enqueueEach(store, [other(), inGroup(), other(), inGroup()])
    const batches = [TYPE, 'other'].map((type) => ({ type, max: 5 }))

    expect(await claimIds(store, { batches })).toEqual([ids[0], ids[2]])
  },

  'each type has a bound of its own': async ({ store, expect }) => {
    await setFlow(store, ALONE)
    await store.enqueue([...groupJobs(5, 'a'), ...groupJobs(5, 'b', { type: 'other' })])
    const batches = [
      { type: TYPE, max: 2 },
      { type: 'other', max: 4 },
    ]

    expect(perGroup(await claimJobs(store, { batches }))).toEqual({ a: 2, b: 4 })
  },

  'a batch begins behind jobs of types the worker does not know': async ({ store, expect }) => {
    await setFlow(store, ALONE)
    const ids = await enqueueEach(store, [other(), inGroup(), other(), inGroup()])

    expect(await claimIds(store, { ...upTo(5), types: [TYPE] })).toEqual([ids[1], ids[3]])
  },

  'a batch takes the highest priority first': async ({ store, expect }) => {
    await setFlow(store, ALONE)
    const ids = await enqueueEach(
      store,
      [0, 5, 0, 9].map((priority) => ({ ...inGroup(), priority })),
    )

    expect(await claimIds(store, upTo(3))).toEqual([ids[3], ids[1], ids[0]])
  },

  'a batch takes those first that age has brought forward': async ({ store, clock, expect }) => {
    await setFlow(store, { ...ALONE, agingMs: MINUTE_MS })
    const old = await enqueueJob(store, { ...inGroup(), priority: 0 })
    await clock.advance(3 * MINUTE_MS)
    const urgent = await enqueueJob(store, { ...inGroup(), priority: 2 })
    await enqueueJob(store, { ...other(), priority: 2 })
    const late = await enqueueJob(store, { ...inGroup(), priority: 0 })

    expect(await claimIds(store, upTo(5))).toEqual([old, urgent, late])
  },

  'a batch of an ordered group does not count priority': async ({ store, expect }) => {
    await setFlow(store, ORDERED)
    const ids = await enqueueEach(
      store,
      [0, 5, 9].map((priority) => ({ ...inGroup(), priority })),
    )

    expect(await claimIds(store, upTo(5))).toEqual(ids)
  },

  'a batch of an ordered group ends before a job with other limits': async ({ store, expect }) => {
    await setLimit(store)
    await setFlow(store, ORDERED)
    const flows = [[], [], [LIMIT], []].map((limits) => inGroup(GROUP, { limits }))
    const ids = await enqueueEach(store, flows)

    const first = await claimJobs(store, upTo(5))
    await store.settle(first.map((job) => succeeded(job)))
    const second = await claimJobs(store, upTo(5))

    expect(first.map(({ id }) => id)).toEqual(ids.slice(0, 2))
    expect(second.map(({ id }) => id)).toEqual([ids[2]])
  },

  ...factsFor(
    EITHER,
    ([name]) => `a job that was lost with its worker is the only one that ${name} gives`,
    async ({ store, expect }, [, flow]) => {
      await setFlow(store, flow)
      const ids = await enqueueGroup(store, 1)
      await loseFirst(store)
      await enqueueGroup(store, 2)

      expect(await claimIds(store, upTo(5))).toEqual(ids)
    },
  ),

  'a batch of an ordered group ends before a job that was lost with its worker': async ({ store, expect }) => {
    await setFlow(store, PASSING)
    const ids = await enqueueGroup(store, 4)
    const batch = await claimJobs(store, upTo(3))
    await store.settle([succeeded(batch[0]!), crashed(batch[2]!, 0)])
    await store.settle([retrying(batch[1]!, 0)])
    await store.promote(10)

    const again = await claimIds(store, upTo(5))

    expect(again).toEqual([ids[1]])
  },

  'a batch of a group that is not ordered leaves out a job that was lost with its worker': async ({
    store,
    expect,
  }) => {
    await setFlow(store, ALONE)
    await enqueueJob(store, { ...inGroup(), priority: 1 })
    const lost = await loseFirst(store)
    const first = await enqueueJob(store, { ...inGroup(), priority: 2 })
    const last = await enqueueJob(store, inGroup())

    const ids = await claimIds(store, upTo(5))

    expect(ids).toEqual([first, last])
    expect(ids.includes(lost)).toBe(false)
  },
}

const bounds: Facts = {
  'a batch is no larger than the queue may run': async ({ store, expect }) => {
    await setFlow(store, { ...ALONE, concurrency: 3 })
    await enqueueGroup(store, 5)

    const { jobs, state } = await claimFlow(store, upTo(5))

    expect(jobs).toHaveLength(3)
    expect(state).toEqual({ queue: QUEUE, more: false, waitMs: null })
  },

  'a batch is no larger than a limit that its jobs name': async ({ store, expect }) => {
    await setLimit(store, { concurrency: 2 })
    await setFlow(store, ALONE)
    await store.enqueue(groupJobs(5, GROUP, inGroup(GROUP, { limits: [LIMIT] })))
    await store.enqueue(groupJobs(5, 'other', inGroup('other', { limits: [LIMIT] })))

    expect(await claimIds(store, upTo(5))).toHaveLength(2)
    expect(await claimIds(store, upTo(5))).toEqual([])
  },

  'each job of a batch takes a token of the queue': async ({ store, clock, expect }) => {
    await setFlow(store, { ...ALONE, rate: perSecond(1, 3) })
    await enqueueGroup(store, 5)
    const batch = await claimJobs(store, upTo(5))
    await store.settle(batch.map((job) => succeeded(job)))

    expect(batch).toHaveLength(3)
    expect((await claimFlow(store, upTo(5))).state).toEqual({ queue: QUEUE, more: false, waitMs: SECOND_MS })
    await clock.advance(2 * SECOND_MS)
    expect(await claimIds(store, upTo(5))).toHaveLength(2)
  },

  'each job of a batch takes a token of its group': async ({ store, clock, expect }) => {
    await setFlow(store, { groups: { concurrency: 1, rate: perSecond(1, 3) } })
    await enqueueGroup(store, 5)

    const { jobs, state } = await claimFlow(store, upTo(5))
    expect(jobs).toHaveLength(3)
    // Its own jobs keep it waiting, and not yet its rate.
    expect(state).toEqual({ queue: QUEUE, more: false, waitMs: null })

    await store.settle(jobs.map((job) => succeeded(job)))
    expect((await claimFlow(store, upTo(5))).state).toEqual({ queue: QUEUE, more: false, waitMs: SECOND_MS })
    await clock.advance(2 * SECOND_MS)
    expect(await claimIds(store, upTo(5))).toHaveLength(2)
  },

  'each job of a batch takes what it costs': async ({ store, expect }) => {
    await setLimit(store, { rate: perSecond(1, 10, 'cost') })
    await setFlow(store, ALONE)
    const ids = await enqueueEach(
      store,
      [4, 5, 2, 1].map((cost) => inGroup(GROUP, { limits: [LIMIT], cost })),
    )

    expect(await claimIds(store, upTo(5))).toEqual(ids.slice(0, 2))
  },

  'a breaker that is tried out lets no more jobs of a batch start than it has probes': async ({
    store,
    clock,
    expect,
  }) => {
    const breaker = { failures: 0.5, of: 2, withinMs: 10_000, cooldownMs: SECOND_MS, probes: 2 }
    await setLimit(store, { breaker })
    await setFlow(store, ALONE)
    await store.observe([{ limit: LIMIT, ok: 0, failed: 2, overloaded: 0 }])
    await store.enqueue(groupJobs(5, GROUP, inGroup(GROUP, { limits: [LIMIT] })))
    await clock.advance(SECOND_MS)

    expect(await claimIds(store, upTo(5))).toHaveLength(2)
  },

  'a paused group gives no batch': async ({ store, expect }) => {
    await setFlow(store, ALONE)
    await enqueueGroup(store, 3)
    await store.pauseGroup(QUEUE, GROUP, OPERATOR)

    expect(await claimIds(store, upTo(3))).toEqual([])
  },

  'another group goes on where a batch has used up the room of the claim': async ({ store, expect }) => {
    await setFlow(store, ALONE)
    await enqueueGroup(store, 3, 'a')
    await enqueueGroup(store, 1, 'b')

    const { state } = await claimFlow(store, { ...upTo(3), limit: 3 })

    expect(state).toEqual({ queue: QUEUE, more: true, waitMs: null })
    expect(perGroup(await claimJobs(store, { ...upTo(3), limit: 3 }))).toEqual({ b: 1 })
  },
}

const ends: Facts = {
  'a job of a batch that retries keeps its ordered group waiting': async ({ store, clock, expect }) => {
    await setFlow(store, ORDERED)
    const ids = await enqueueGroup(store, 4)
    const [first, second] = await claimJobs(store, upTo(2))
    await store.settle([retrying(first!), succeeded(second!)])

    expect(await claimIds(store, upTo(5))).toEqual([])
    await clock.advance(SECOND_MS)
    await store.promote(10)
    expect(await claimIds(store, upTo(5))).toEqual([ids[0], ids[2], ids[3]])
  },

  'with onRetry pass the others go on when the batch is over': async ({ store, expect }) => {
    await setFlow(store, PASSING)
    const ids = await enqueueGroup(store, 4)
    const [first, second] = await claimJobs(store, upTo(2))
    await store.settle([retrying(first!)])

    expect(await claimIds(store, upTo(5))).toEqual([])
    await store.settle([succeeded(second!)])
    expect(await claimIds(store, upTo(5))).toEqual(ids.slice(2))
  },

  'a lost worker frees the group when the last lease of its batch is rescued': async ({ store, clock, expect }) => {
    await setFlow(store, ALONE)
    const ids = await enqueueGroup(store, 3)
    const [first, second] = await claimJobs(store, upTo(2))
    await clock.advance(LEASE_MS + 1)

    await store.settle([crashed(first!, MINUTE_MS)], { onlyExpired: true })
    expect(await claimIds(store, upTo(5))).toEqual([])
    await store.settle([crashed(second!, MINUTE_MS)], { onlyExpired: true })
    expect(await claimIds(store, upTo(5))).toEqual([ids[2]])
  },

  'claims of two processes never take from a group while its batch runs': async ({ store, openPeer, expect }) => {
    await setFlow(store, ALONE)
    await store.enqueue(groupJobs(20))
    const peer = await openPeer()

    const claims = await Promise.all([store, peer, store, peer].map((one) => claimIds(one, upTo(3))))

    expect(claims.flat()).toHaveLength(3)
    expect(claims.filter((ids) => ids.length > 0)).toHaveLength(1)
  },

  'a job that comes while a batch runs waits for all of it': async ({ store, expect }) => {
    await setFlow(store, ALONE)
    await enqueueGroup(store, 2)
    const [first, second] = await claimJobs(store, upTo(5))
    const late = newJob(inGroup())
    await store.enqueue([late])

    await store.settle([succeeded(first!)])
    expect(await claimIds(store, upTo(5))).toEqual([])
    await store.settle([succeeded(second!)])
    expect(await claimIds(store, upTo(5))).toEqual([late.id])
  },
}

/** What batches of one group mean for a claim. */
export const flowBatchFacts: Facts = { ...turns, ...members, ...bounds, ...ends }
