// Ordered groups: one job at a time, in the order of their enqueues.

import type { Facts } from './context.js'
import {
  claimFlow,
  enqueueGroup,
  GROUP,
  groupJobs,
  inGroup,
  limitedBy,
  setFlow,
  setGroup,
  setLimit,
} from './flow-samples.js'
import {
  cancelled,
  crashed,
  dead,
  LEASE_MS,
  MINUTE_MS,
  newJob,
  OPERATOR,
  QUEUE,
  released,
  retrying,
  SECOND_MS,
  snoozed,
  succeeded,
} from './samples.js'
import { claimIds, claimJob, claimJobs, enqueueEach, enqueueJob, runNext, stateOf } from './steps.js'

const ORDERED = { groups: { ordered: true } } as const
const PASSING = { groups: { ordered: true, onRetry: 'pass' } } as const
const STOPPING = { groups: { ordered: true, onDead: 'stop' } } as const

const order: Facts = {
  'an ordered group runs one job at a time': async ({ store, expect }) => {
    await setFlow(store, ORDERED)
    const [first] = await enqueueGroup(store, 3)

    expect(await claimIds(store)).toEqual([first])
    expect(await claimIds(store)).toEqual([])
  },

  'an ordered group runs its jobs in the order of their enqueues': async ({ store, expect }) => {
    await setFlow(store, ORDERED)
    const ids = await enqueueGroup(store, 4)

    const ran: string[] = []
    for (const _ of ids) ran.push(await runNext(store, succeeded))

    expect(ran).toEqual(ids)
  },

  'ordered jobs of a batch run in the order of the batch': async ({ store, expect }) => {
    await setFlow(store, ORDERED)
    const jobs = groupJobs(4).reverse()
    await store.enqueue(jobs)

    const ran: string[] = []
    for (const _ of jobs) ran.push(await runNext(store, succeeded))

    expect(ran).toEqual(jobs.map(({ id }) => id))
  },

  'priority does not count in an ordered group': async ({ store, expect }) => {
    await setFlow(store, ORDERED)
    const [low] = await enqueueEach(store, [inGroup(), { ...inGroup(), priority: 9 }])

    expect(await claimIds(store)).toEqual([low])
  },

  'jobs without a group keep priority and bounds where groups are ordered': async ({ store, expect }) => {
    await setLimit(store)
    await setFlow(store, ORDERED)
    const [low, high] = await enqueueEach(store, [limitedBy('stripe'), { ...limitedBy('stripe'), priority: 9 }])

    expect(await claimIds(store)).toEqual([high, low])
  },

  'two ordered groups run side by side': async ({ store, expect }) => {
    await setFlow(store, ORDERED)
    const [a] = await enqueueGroup(store, 2, 'a')
    const [b] = await enqueueGroup(store, 2, 'b')

    expect((await claimIds(store)).sort()).toEqual([a!, b!].sort())
  },

  'a bound of its own does not let an ordered group run two': async ({ store, expect }) => {
    await setFlow(store, ORDERED)
    await setGroup(store, GROUP, { concurrency: 5 })
    await enqueueGroup(store, 3)

    expect(await claimIds(store)).toHaveLength(1)
  },

  'an ordered group keeps its order over sets of limits': async ({ store, expect }) => {
    await setLimit(store)
    await setFlow(store, ORDERED)
    const flows = [[], ['stripe'], [], ['stripe']].map((limits) => inGroup(GROUP, { limits }))
    const ids = await enqueueEach(store, flows)

    const ran: string[] = []
    for (const _ of ids) ran.push(await runNext(store, succeeded))

    expect(ran).toEqual(ids)
  },

  'a first job that waits for a limit keeps its ordered group waiting': async ({ store, expect }) => {
    await setLimit(store, { concurrency: 1 })
    await setFlow(store, ORDERED)
    await enqueueJob(store, { ...limitedBy('stripe'), queue: 'push' })
    const holder = await claimJob(store, { queue: 'push' })
    const [first] = await enqueueEach(store, [inGroup(GROUP, { limits: ['stripe'] }), inGroup()])

    expect(await claimIds(store)).toEqual([])
    await store.settle([succeeded(holder)])
    expect(await claimIds(store)).toEqual([first])
  },

  'an ordered group waits for a worker that knows its first job': async ({ store, expect }) => {
    await setFlow(store, ORDERED)
    const [first] = await enqueueEach(store, [{ ...inGroup(), type: 'other' }, inGroup()])

    expect(await claimIds(store, { types: ['send_email'] })).toEqual([])
    expect(await claimIds(store, { types: ['other'] })).toEqual([first])
  },

  'a cancelled first job lets its ordered group go on': async ({ store, expect }) => {
    await setFlow(store, ORDERED)
    const [first, second] = await enqueueGroup(store, 2)

    await store.cancel([first!], OPERATOR)

    expect(await claimIds(store)).toEqual([second])
  },

  'a job that becomes due takes its own place in an ordered group': async ({ store, clock, expect }) => {
    await setFlow(store, ORDERED)
    const [timed, second, third] = await enqueueEach(store, [
      { ...inGroup(), when: { delayMs: SECOND_MS } },
      inGroup(),
      inGroup(),
    ])
    expect(await runNext(store, succeeded)).toBe(second)
    await clock.advance(SECOND_MS)

    await store.promote(10)

    expect(await runNext(store, succeeded)).toBe(timed)
    expect(await runNext(store, succeeded)).toBe(third)
  },

  'a job of an ordered group comes after a parent of the same group': async ({ store, expect }) => {
    await setFlow(store, ORDERED)
    const parent = newJob(inGroup())
    const child = newJob({ ...inGroup(), after: [parent.id] })
    await store.enqueue([parent, child])

    expect(await runNext(store, succeeded)).toBe(parent.id)
    expect(await runNext(store, succeeded)).toBe(child.id)
  },

  'a queue that becomes ordered orders what waits already': async ({ store, expect }) => {
    const [first] = await enqueueEach(store, [inGroup(), { ...inGroup(), priority: 9 }])

    await setFlow(store, ORDERED)

    expect(await claimIds(store)).toEqual([first])
  },

  'a queue that is no longer ordered goes by priority again': async ({ store, expect }) => {
    await setFlow(store, ORDERED)
    const [low, high] = await enqueueEach(store, [inGroup(), { ...inGroup(), priority: 9 }])

    await setFlow(store, {})

    expect(await claimIds(store)).toEqual([high, low])
  },
}

const retries: Facts = {
  'an ordered group waits while its job retries': async ({ store, clock, expect }) => {
    await setFlow(store, ORDERED)
    const [first, second] = await enqueueGroup(store, 2)
    await store.settle([retrying(await claimJob(store), SECOND_MS)])

    expect(await claimIds(store)).toEqual([])
    await clock.advance(SECOND_MS)
    await store.promote(10)
    expect(await runNext(store, succeeded)).toBe(first)
    expect(await runNext(store, succeeded)).toBe(second)
  },

  'an ordered group waits while its job snoozes': async ({ store, clock, expect }) => {
    await setFlow(store, ORDERED)
    const [first] = await enqueueGroup(store, 2)
    await store.settle([snoozed(await claimJob(store), SECOND_MS)])

    expect(await claimIds(store)).toEqual([])
    await clock.advance(SECOND_MS)
    await store.promote(10)
    expect(await claimIds(store)).toEqual([first])
  },

  'an ordered group that lets retries pass goes on': async ({ store, expect }) => {
    await setFlow(store, PASSING)
    const [, second] = await enqueueGroup(store, 2)

    await store.settle([retrying(await claimJob(store), SECOND_MS)])

    expect(await claimIds(store)).toEqual([second])
  },

  'a retry that was passed comes first when it is due': async ({ store, clock, expect }) => {
    await setFlow(store, PASSING)
    const [first, second, third] = await enqueueGroup(store, 3)
    await store.settle([retrying(await claimJob(store), SECOND_MS)])
    expect(await runNext(store, succeeded)).toBe(second)
    await clock.advance(SECOND_MS)
    await store.promote(10)

    expect(await runNext(store, succeeded)).toBe(first)
    expect(await runNext(store, succeeded)).toBe(third)
  },

  'a job that is scheduled and never started keeps nobody of its group waiting': async ({ store, expect }) => {
    await setFlow(store, ORDERED)
    const [, second] = await enqueueEach(store, [{ ...inGroup(), when: { delayMs: MINUTE_MS } }, inGroup()])

    expect(await claimIds(store)).toEqual([second])
  },

  'a released job of an ordered group comes first again': async ({ store, expect }) => {
    await setFlow(store, ORDERED)
    const [first, second] = await enqueueGroup(store, 2)

    await store.settle([released(await claimJob(store))])

    expect(await runNext(store, succeeded)).toBe(first)
    expect(await runNext(store, succeeded)).toBe(second)
  },

  'a rescued job of an ordered group comes first again': async ({ store, clock, expect }) => {
    await setFlow(store, ORDERED)
    const [first] = await enqueueGroup(store, 2)
    const job = await claimJob(store)
    await clock.advance(LEASE_MS)
    expect(await claimIds(store)).toEqual([])

    await store.settle([released(job)], { onlyExpired: true })

    expect(await claimIds(store)).toEqual([first])
  },

  'a crash that is retried keeps its ordered group waiting': async ({ store, clock, expect }) => {
    await setFlow(store, ORDERED)
    await enqueueGroup(store, 2)
    const job = await claimJob(store)
    await clock.advance(LEASE_MS)

    await store.settle([crashed(job, SECOND_MS)], { onlyExpired: true })

    expect(await claimIds(store)).toEqual([])
  },

  'cancelling a job that retries lets its ordered group go on': async ({ store, expect }) => {
    await setFlow(store, ORDERED)
    const [first, second] = await enqueueGroup(store, 2)
    await store.settle([retrying(await claimJob(store), MINUTE_MS)])
    await claimJobs(store)

    await store.cancel([first!], OPERATOR)

    expect(await claimIds(store)).toEqual([second])
  },

  'a queue that lets retries pass from now on lets waiting groups go': async ({ store, expect }) => {
    await setFlow(store, ORDERED)
    const [, second] = await enqueueGroup(store, 2)
    await store.settle([retrying(await claimJob(store), MINUTE_MS)])
    await claimJobs(store)

    await setFlow(store, PASSING)

    expect(await claimIds(store)).toEqual([second])
  },

  'a group that is not ordered goes on while its job retries': async ({ store, expect }) => {
    await setFlow(store, { groups: { concurrency: 1 } })
    const [, second] = await enqueueGroup(store, 2)

    await store.settle([retrying(await claimJob(store), MINUTE_MS)])

    expect(await claimIds(store)).toEqual([second])
  },
}

const deaths: Facts = {
  'a dead job lets its ordered group go on': async ({ store, expect }) => {
    await setFlow(store, ORDERED)
    const [, second] = await enqueueGroup(store, 2)

    await store.settle([dead(await claimJob(store))])

    expect(await claimIds(store)).toEqual([second])
  },

  'a dead job pauses its group where the queue stops for its dead': async ({ store, expect }) => {
    await setFlow(store, STOPPING)
    const [first] = await enqueueGroup(store, 2)

    await store.settle([dead(await claimJob(store))])

    expect(await claimIds(store)).toEqual([])
    const { groups } = await store.groups({ queue: QUEUE, prefix: '', after: null, limit: 10 })
    expect(groups).toMatchObject([{ group: GROUP, paused: true, stoppedBy: first, ready: 1, running: 0 }])
  },

  'a dead job stops its own group and no other': async ({ store, expect }) => {
    await setFlow(store, STOPPING)
    await enqueueGroup(store, 2, 'a')
    await store.settle([dead(await claimJob(store))])

    const other = await enqueueJob(store, inGroup('b'))

    expect(await claimIds(store)).toEqual([other])
  },

  'a cancelled job does not stop its group': async ({ store, expect }) => {
    await setFlow(store, STOPPING)
    const [, second] = await enqueueGroup(store, 2)

    await store.settle([cancelled(await claimJob(store))])

    expect(await claimIds(store)).toEqual([second])
  },

  'a group that stopped goes on when it is resumed': async ({ store, expect }) => {
    await setFlow(store, STOPPING)
    const [, second] = await enqueueGroup(store, 2)
    await store.settle([dead(await claimJob(store))])

    await store.resumeGroup(QUEUE, GROUP, OPERATOR)

    expect(await claimIds(store)).toEqual([second])
    const { groups } = await store.groups({ queue: QUEUE, prefix: '', after: null, limit: 10 })
    expect(groups).toMatchObject([{ paused: false, stoppedBy: null }])
  },

  'a job that stopped its group gets its own place back when it is requeued': async ({ store, expect }) => {
    await setFlow(store, STOPPING)
    const [first, second] = await enqueueGroup(store, 2)
    await store.settle([dead(await claimJob(store))])

    await store.requeue([first!], OPERATOR)
    await store.resumeGroup(QUEUE, GROUP, OPERATOR)

    expect(await runNext(store, succeeded)).toBe(first)
    expect(await runNext(store, succeeded)).toBe(second)
  },

  'a requeued job goes to the end of an ordered group that went on': async ({ store, expect }) => {
    await setFlow(store, ORDERED)
    const [first, second, third] = await enqueueGroup(store, 3)
    await store.settle([dead(await claimJob(store))])
    expect(await runNext(store, succeeded)).toBe(second)

    await store.requeue([first!], OPERATOR)

    expect(await runNext(store, succeeded)).toBe(third)
    expect(await runNext(store, succeeded)).toBe(first)
    expect(await stateOf(store, first!)).toBe('succeeded')
  },

  'a dead job without a group stops nothing': async ({ store, expect }) => {
    await setLimit(store)
    await setFlow(store, STOPPING)
    const [, second] = await enqueueEach(store, [limitedBy('stripe'), limitedBy('stripe')])

    await store.settle([dead(await claimJob(store))])

    expect(await claimFlow(store)).toMatchObject({ ids: [second] })
  },
}

export const flowOrderedFacts: Facts = { ...order, ...retries, ...deaths }
