// Flow control in numbers, and what retention drops of it.

import { FLOW_COUNT_MAX } from '../../core/flow/counts.js'
import { TRACKS_MAX } from '../../core/flow/job-flow.js'
import type { Store } from '../../core/store.js'
import type { Facts } from './context.js'
import {
  claimFlow,
  GROUP,
  groupJobs,
  inGroup,
  LIMIT,
  limitedBy,
  perSecond,
  setFlow,
  setGroup,
  setLimit,
} from './flow-samples.js'
import { dead, MINUTE_MS, newJob, newJobs, OPERATOR, QUEUE, SECOND_MS, succeeded } from './samples.js'
import { claimIds, claimJob, claimJobs, enqueueJob } from './steps.js'

const BREAKER = { failures: 0.5, of: 4, withinMs: 10_000, cooldownMs: 5_000, probes: 2 }
const WEEK_MS = 7 * 86_400_000
const HOUR_MS = 60 * MINUTE_MS

const counts: Facts = {
  'a store without flow control counts nothing': async ({ store, expect }) => {
    await enqueueJob(store)

    expect(await store.flowCounts()).toEqual({ limits: [], queues: [] })
  },

  'a limit is counted with its jobs, its bounds and its tokens': async ({ store, expect }) => {
    await setLimit(store, { concurrency: 3, rate: perSecond(5) })
    await store.enqueue(newJobs(4, limitedBy(LIMIT)))
    await store.enqueue(newJobs(2, { ...limitedBy(LIMIT), queue: 'push' }))
    await claimJobs(store, { limit: 1 })
    await claimJobs(store, { queue: 'push', limit: 1 })

    expect((await store.flowCounts()).limits).toEqual([
      { name: LIMIT, running: 2, capacity: 3, tokens: 3, isHeldOff: false, position: null, forced: null },
    ])
  },

  'the limit of a queue is counted with its plain jobs': async ({ store, expect }) => {
    await setFlow(store, { concurrency: 5 })
    await store.enqueue(newJobs(2))
    await claimJobs(store)

    expect((await store.flowCounts()).limits).toMatchObject([{ name: `queue:${QUEUE}`, running: 2, capacity: 5 }])
  },

  'a breaker is counted with its position and who holds it': async ({ store, expect }) => {
    await setLimit(store, { breaker: BREAKER })
    await setLimit(store, {}, 'plain')
    await setLimit(store, {}, 'held')
    await store.observe([{ limit: LIMIT, ok: 0, failed: 4, overloaded: 0 }])
    await store.forceBreaker('held', 'closed', OPERATOR)

    expect((await store.flowCounts()).limits).toMatchObject([
      { name: 'held', position: 'closed', forced: 'closed' },
      { name: 'plain', position: null, forced: null },
      { name: LIMIT, position: 'open', forced: null },
    ])
  },

  'an adaptive limit has the capacity it has come to': async ({ store, expect }) => {
    await setLimit(store, { adaptive: { min: 2, max: 50 } })

    expect((await store.flowCounts()).limits).toMatchObject([{ capacity: 2 }])
  },

  'a limit that was told to wait is held off until then': async ({ store, clock, expect }) => {
    await setLimit(store)
    await enqueueJob(store, limitedBy(LIMIT))
    const job = await claimJob(store)
    await store.settle([{ ...succeeded(job), holdOff: { scope: 'limit', limit: LIMIT, afterMs: SECOND_MS } }])

    const isHeldOff = async () => (await store.flowCounts()).limits[0]!.isHeldOff
    expect(await isHeldOff()).toBe(true)
    await clock.advance(SECOND_MS)
    expect(await isHeldOff()).toBe(false)
  },

  'a queue is counted with its held jobs and their groups': async ({ store, expect }) => {
    await setLimit(store)
    await store.enqueue([...groupJobs(2, 'a'), ...groupJobs(3, 'b'), ...newJobs(1, limitedBy(LIMIT)), newJob()])
    await store.enqueue(groupJobs(1, 'c', inGroup('c', { limits: [LIMIT] })))

    expect((await store.flowCounts()).queues).toMatchObject([
      { queue: QUEUE, held: 7, groups: 3, stopped: 0, repaired: 0 },
    ])
  },

  'groups that stopped for a dead job are counted until they are resumed': async ({ store, expect }) => {
    await setFlow(store, { groups: { ordered: true, onDead: 'stop' } })
    await store.enqueue([...groupJobs(2, 'a'), ...groupJobs(2, 'b')])
    await store.settle((await claimJobs(store)).map((job) => dead(job)))
    await store.pauseGroup(QUEUE, 'c', OPERATOR)

    const stopped = async () => (await store.flowCounts()).queues![0]!.stopped
    expect(await stopped()).toBe(2)
    await store.resumeGroup(QUEUE, 'a', OPERATOR)
    expect(await stopped()).toBe(1)
  },

  'jobs of a queue are counted up to a bound': async ({ store, expect }) => {
    for (let index = 0; index < 11; index++) await store.enqueue(groupJobs(1_000, 'a'))

    expect((await store.flowCounts()).queues).toMatchObject([{ held: FLOW_COUNT_MAX, groups: 1 }])
  },
}

/** Fills a queue's sets of limits with jobs that are done. */
async function useTracks(store: Store): Promise<void> {
  for (let index = 0; index < TRACKS_MAX; index++) await setLimit(store, {}, `limit-${index}`)
  await store.enqueue(Array.from({ length: TRACKS_MAX }, (_, index) => newJob(limitedBy(`limit-${index}`))))
}

const oneMore = (store: Store) => store.enqueue([newJob(limitedBy(LIMIT))])
const REFUSED = { refused: { code: 'too_many_tracks' } }

const pruned: Facts = {
  'sets of limits that no job has any more make room for others within hours': async ({ store, clock, expect }) => {
    await setLimit(store)
    await useTracks(store)
    await store.settle((await claimJobs(store)).map((job) => succeeded(job)))
    expect(await oneMore(store)).toMatchObject([REFUSED])

    for (let hour = 0; hour < 3; hour++) {
      await store.prune({ retentionMs: WEEK_MS })
      await clock.advance(HOUR_MS)
    }

    expect(await oneMore(store)).toMatchObject([{ created: true }])
    expect(await store.enqueue([newJob(limitedBy('limit-7'))])).toMatchObject([{ created: true }])
    expect(await claimIds(store)).toHaveLength(2)
  },

  'sets of limits that jobs in any state have are kept': async ({ store, clock, expect }) => {
    await setLimit(store)
    await useTracks(store)
    const [ready, running, died, done] = await claimJobs(store)
    const names = (job: typeof ready) => job!.flow!.limits[0]!
    await store.settle([dead(died!), succeeded(done!)])
    await store.enqueue([newJob({ ...limitedBy(names(ready)), when: { delayMs: 30 * HOUR_MS } })])

    for (let hour = 0; hour < 3; hour++) {
      await store.prune({ retentionMs: WEEK_MS })
      await clock.advance(HOUR_MS)
    }

    // One of them was free.
    expect(await oneMore(store)).toMatchObject([{ created: true }])
    expect(await store.enqueue([newJob(limitedBy(names(done)))])).toMatchObject([REFUSED])
    for (const job of [ready, running, died]) {
      expect(await store.enqueue([newJob(limitedBy(names(job)))])).toMatchObject([{ created: true }])
    }
  },

  'limits that nobody uses are kept': async ({ store, clock, expect }) => {
    await setLimit(store)
    await clock.advance(30 * 86_400_000)

    await store.prune({ retentionMs: WEEK_MS })

    expect(await store.limits()).toMatchObject([{ name: LIMIT }])
  },

  'settings and pauses of groups without jobs are kept': async ({ store, clock, expect }) => {
    await setGroup(store, 'set', { weight: 2 })
    await store.pauseGroup(QUEUE, 'paused', OPERATOR)
    await clock.advance(HOUR_MS)

    await store.prune({ retentionMs: WEEK_MS })

    const { groups } = await store.groups({ queue: QUEUE, prefix: '', after: null, limit: 10 })
    expect(groups.map(({ group }) => group)).toEqual(['paused', 'set'])
  },

  'a group that is told to wait waits on when it is pruned': async ({ store, clock, expect }) => {
    await store.enqueue(groupJobs(2))
    const [job] = await claimJobs(store, { limit: 1 })
    await store.settle([{ ...succeeded(job!), holdOff: { scope: 'group', afterMs: MINUTE_MS } }])
    await claimFlow(store)

    await store.prune({ retentionMs: WEEK_MS })

    expect(await claimIds(store)).toEqual([])
    await clock.advance(MINUTE_MS)
    expect(await claimIds(store)).toHaveLength(1)
  },

  'a group whose jobs were cancelled while it waited for a time takes new ones': async ({ store, clock, expect }) => {
    await setFlow(store, { groups: { rate: perSecond(1) } })
    const jobs = groupJobs(2)
    await store.enqueue(jobs)
    await claimFlow(store)
    await store.cancel([jobs[1]!.id], OPERATOR)
    await clock.advance(2 * MINUTE_MS)
    await store.prune({ retentionMs: WEEK_MS })

    const id = await enqueueJob(store, inGroup(GROUP))

    expect(await claimIds(store)).toEqual([id])
  },
}

export const flowCountFacts: Facts = { ...counts, ...pruned }
