// Group and limits stay with a job whatever becomes of it.

import type { NewBulk } from '../../core/operating.js'
import type { Facts } from './context.js'
import { claimFlow, enqueueGroup, GROUP, inGroup, LIMIT, limitedBy, setFlow, setLimit } from './flow-samples.js'
import {
  crashed,
  dead,
  LEASE_MS,
  MINUTE_MS,
  newId,
  newJob,
  newSchedule,
  OPERATOR,
  QUEUE,
  released,
  retrying,
  SECOND_MS,
  START_MS,
  snoozed,
  succeeded,
} from './samples.js'
import { claimIds, claimJob, claimJobs, enqueueJob, startJob, stateOf, viewOf } from './steps.js'

const FLOW = { group: GROUP, limits: [LIMIT], cost: 2 }

/** The settings under which a kept group or limit shows: each lets one run. */
async function narrow(store: Parameters<typeof setFlow>[0]): Promise<void> {
  await setLimit(store, { concurrency: 1 })
  await setFlow(store, { groups: { concurrency: 1 } })
}

function bulk(changes: Partial<NewBulk>): NewBulk {
  const plain = { id: newId(), by: OPERATOR, perSecond: null, limit: 100, expected: null }
  return { ...plain, action: 'cancel', filter: {}, ...changes }
}

const slots: Facts = {
  'a retry keeps group and limits': async ({ store, clock, expect }) => {
    await narrow(store)
    await store.settle([retrying(await startJob(store, { flow: FLOW }), SECOND_MS)])
    await clock.advance(SECOND_MS)
    await store.promote(10)

    expect((await claimJob(store)).flow).toEqual(FLOW)
  },

  'a retry frees its slots and takes them again when it is due': async ({ store, clock, expect }) => {
    await narrow(store)
    const job = await startJob(store, { flow: FLOW })
    const other = await enqueueJob(store, { flow: FLOW })
    await store.settle([retrying(job, SECOND_MS)])
    expect(await claimIds(store)).toEqual([other])

    await clock.advance(SECOND_MS)
    await store.promote(10)

    expect(await claimIds(store)).toEqual([])
    expect(await stateOf(store, job.id)).toBe('ready')
  },

  'a snoozed job keeps group and limits': async ({ store, clock, expect }) => {
    await narrow(store)
    await store.settle([snoozed(await startJob(store, { flow: FLOW }), SECOND_MS)])
    await clock.advance(SECOND_MS)
    await store.promote(10)

    expect((await claimJob(store)).flow).toEqual(FLOW)
  },

  'a released job keeps group and limits and comes first in its group': async ({ store, expect }) => {
    await narrow(store)
    const job = await startJob(store, { flow: FLOW })
    await enqueueJob(store, { flow: FLOW })

    await store.settle([released(job)])

    const again = await claimJob(store)
    expect(again.id).toBe(job.id)
    expect(again.flow).toEqual(FLOW)
    expect(await claimIds(store)).toEqual([])
  },

  'an expired lease shows group and limits': async ({ store, clock, expect }) => {
    await narrow(store)
    const job = await startJob(store, { flow: FLOW })
    await clock.advance(LEASE_MS)

    const { jobs } = await store.expired(10)

    expect(jobs).toMatchObject([{ id: job.id, flow: FLOW }])
  },

  'a rescued job keeps group and limits': async ({ store, clock, expect }) => {
    await narrow(store)
    const job = await startJob(store, { flow: FLOW })
    await clock.advance(LEASE_MS)
    await store.settle([crashed(job, SECOND_MS)], { onlyExpired: true })
    await clock.advance(SECOND_MS)
    await store.promote(10)

    expect((await claimJob(store)).flow).toEqual(FLOW)
  },

  'a late settlement of a rescued job frees no slot twice': async ({ store, clock, expect }) => {
    await narrow(store)
    const job = await startJob(store, { flow: FLOW })
    for (let index = 0; index < 3; index++) await enqueueJob(store, { flow: FLOW })
    await clock.advance(LEASE_MS)
    await store.settle([crashed(job, MINUTE_MS)], { onlyExpired: true })
    expect(await claimIds(store)).toHaveLength(1)

    expect(await store.settle([succeeded(job)])).toMatchObject([{ result: 'lost' }])

    expect(await claimIds(store)).toEqual([])
  },

  'a settlement that is repeated frees no slot twice': async ({ store, expect }) => {
    await narrow(store)
    const job = await startJob(store, { flow: FLOW })
    for (let index = 0; index < 3; index++) await enqueueJob(store, { flow: FLOW })
    await store.settle([succeeded(job)])
    expect(await claimIds(store)).toHaveLength(1)

    await store.settle([succeeded(job)])

    expect(await claimIds(store)).toEqual([])
  },

  'an extended lease keeps its slots': async ({ store, clock, expect }) => {
    await narrow(store)
    const job = await startJob(store, { flow: FLOW })
    await enqueueJob(store, { flow: FLOW })

    await store.extend([job], 4 * LEASE_MS)
    await clock.advance(2 * LEASE_MS)

    expect(await claimIds(store)).toEqual([])
  },

  'a running job whose cancel was asked for keeps its slots until it ends': async ({ store, expect }) => {
    await narrow(store)
    const job = await startJob(store, { flow: FLOW })
    const next = await enqueueJob(store, { flow: FLOW })
    await store.cancel([job.id], OPERATOR)
    expect(await claimIds(store)).toEqual([])

    await store.settle([retrying(job)])

    expect(await stateOf(store, job.id)).toBe('cancelled')
    expect(await claimIds(store)).toEqual([next])
  },

  'a job that is enqueued again with its id is one job of its group': async ({ store, expect }) => {
    const job = newJob(inGroup())
    await store.enqueue([job])
    await store.enqueue([job])

    expect(await claimIds(store)).toEqual([job.id])
    expect(await claimIds(store)).toEqual([])
  },
}

const moves: Facts = {
  'a requeued job keeps group and limits and goes to the end of its group': async ({ store, expect }) => {
    await narrow(store)
    const job = await startJob(store, { flow: FLOW })
    await store.settle([dead(job)])
    const next = await enqueueJob(store, { flow: FLOW })

    await store.requeue([job.id], OPERATOR)

    const first = await claimJob(store)
    expect(first.id).toBe(next)
    await store.settle([succeeded(first)])
    expect(await claimJob(store)).toMatchObject({ id: job.id, flow: FLOW })
  },

  'a cancelled job is not claimed from its group': async ({ store, expect }) => {
    const [first, second] = await enqueueGroup(store, 2)

    await store.cancel([first!], OPERATOR)

    expect(await claimIds(store)).toEqual([second])
  },

  'a bulk cancel reaches jobs of groups': async ({ store, expect }) => {
    await enqueueGroup(store, 3)

    await store.startBulk(bulk({ filter: { queues: [QUEUE] } }))
    await store.stepBulk()

    expect(await store.stats(QUEUE)).toMatchObject({ ready: 0 })
    expect(await claimIds(store)).toEqual([])
  },

  'a bulk requeue brings dead jobs back to their groups': async ({ store, expect }) => {
    await setFlow(store, { groups: { concurrency: 1 } })
    for (let index = 0; index < 3; index++) {
      await enqueueGroup(store, 1)
      await store.settle([dead(await claimJob(store))])
    }

    await store.startBulk(bulk({ action: 'requeue', filter: { states: ['dead'] } }))
    await store.stepBulk()

    expect(await store.stats(QUEUE)).toMatchObject({ ready: 3, dead: 0 })
    expect(await claimIds(store)).toHaveLength(1)
  },

  'an update of the priority moves a job inside its group': async ({ store, expect }) => {
    const [first, second] = await enqueueGroup(store, 2)

    await store.update(second!, { priority: 5 }, OPERATOR)

    expect(await claimIds(store)).toEqual([second, first])
  },

  'an update of the time takes a job out of its group until then': async ({ store, clock, expect }) => {
    await setFlow(store, { groups: { concurrency: 1 } })
    const [first, second] = await enqueueGroup(store, 2)
    await store.update(first!, { runAtMs: START_MS + SECOND_MS }, OPERATOR)
    const job = await claimJob(store)
    expect(job.id).toBe(second)
    await clock.advance(SECOND_MS)

    await store.promote(10)

    expect(await claimIds(store)).toEqual([])
    await store.settle([succeeded(job)])
    expect(await claimIds(store)).toEqual([first])
  },

  'a job that waits for a time has no slot': async ({ store, clock, expect }) => {
    await narrow(store)
    const timed = await enqueueJob(store, { flow: FLOW, when: { delayMs: SECOND_MS } })
    const job = await startJob(store, { flow: FLOW })
    await clock.advance(SECOND_MS)
    await store.promote(10)
    expect(await claimIds(store)).toEqual([])

    await store.settle([succeeded(job)])

    expect(await claimIds(store)).toEqual([timed])
  },

  'a job that became due goes first in its group': async ({ store, clock, expect }) => {
    const timed = await enqueueJob(store, { ...inGroup(), when: { delayMs: SECOND_MS } })
    const backlog = await enqueueJob(store, inGroup())
    await clock.advance(SECOND_MS)
    await store.promote(10)

    expect(await claimIds(store)).toEqual([timed, backlog])
  },

  'a job waits for its parents first, then for its group': async ({ store, expect }) => {
    await setFlow(store, { groups: { concurrency: 1 } })
    const parent = await startJob(store, { queue: 'push' })
    const child = await enqueueJob(store, { ...inGroup(), after: [parent.id] })
    const busy = await startJob(store, inGroup())
    await store.settle([succeeded(parent)])
    expect(await stateOf(store, child)).toBe('ready')
    expect(await claimIds(store)).toEqual([])

    await store.settle([succeeded(busy)])

    expect(await claimIds(store)).toEqual([child])
  },

  'an idempotency key keeps a second job of a group away': async ({ store, expect }) => {
    const idempotencyKey = { key: 'k', ttlMs: null }
    const id = await enqueueJob(store, { ...inGroup(), idempotencyKey })

    const [answer] = await store.enqueue([newJob({ ...inGroup(), idempotencyKey })])

    expect(answer).toMatchObject({ id, created: false })
    expect(await claimIds(store)).toEqual([id])
  },

  'the job of a tick has the group and the limits of its schedule': async ({ store, expect }) => {
    await setLimit(store)
    const schedule = newSchedule({ flow: FLOW })
    await store.setSchedule(schedule, START_MS, OPERATOR)
    expect(await store.schedules()).toMatchObject([{ flow: FLOW }])

    const job = newJob({ flow: FLOW })
    const ticks = [{ tickMs: START_MS, job }]
    await store.fire({ name: schedule.name, expectedNextAtMs: START_MS, ticks, nextAtMs: null })

    expect(await claimJob(store)).toMatchObject({ id: job.id, flow: FLOW })
  },

  'jobs of groups are listed, counted and shown as ready': async ({ store, expect }) => {
    await setFlow(store, { groups: { concurrency: 1 } })
    const ids = await enqueueGroup(store, 3)

    const page = await store.list({ filter: { states: ['ready'] }, limit: 10, before: null })

    expect(page.jobs.map(({ id }) => id).sort()).toEqual([...ids].sort())
    expect(page.jobs[0]!.flow).toEqual({ group: GROUP, limits: [], cost: 1 })
    expect(await store.count({ states: ['ready'] }, { max: 100 })).toEqual({ count: 3, isExact: true })
    expect((await store.overview()).queues).toMatchObject([{ name: QUEUE, ready: 3 }])
    expect(await viewOf(store, ids[0]!)).toMatchObject({ state: 'ready', flow: { group: GROUP } })
  },

  "a job's standing counts those of its group before it": async ({ store, expect }) => {
    await enqueueGroup(store, 5, 'other')
    const ids = await enqueueGroup(store, 3)

    expect((await store.standing(ids[2]!))!.ahead).toEqual({ count: 2, isExact: true })
  },

  'the age of the oldest ready job counts jobs of groups': async ({ store, clock, expect }) => {
    await enqueueGroup(store, 1)

    await clock.advance(5 * SECOND_MS)

    expect((await store.stats(QUEUE)).oldestAgeS).toBe(5)
  },

  'a claim of jobs of groups says how long the first of them had waited': async ({ store, clock, expect }) => {
    await enqueueGroup(store, 1)
    await clock.advance(5 * SECOND_MS)
    const queues = [{ queue: QUEUE, limit: 1 }]

    const { waitedMs } = await store.claim({ queues, types: null, worker: 'w', leaseMs: LEASE_MS })

    expect(waitedMs).toBe(5 * SECOND_MS)
  },

  'a queue with jobs of groups is not removed': async ({ store, expect }) => {
    await enqueueGroup(store, 1)

    expect(await store.removeQueue(QUEUE, OPERATOR)).toBe('busy')
  },

  'a removed queue forgets groups and limits': async ({ store, expect }) => {
    await setFlow(store, { concurrency: 1 })
    await store.pauseGroup(QUEUE, GROUP, OPERATOR)

    expect(await store.removeQueue(QUEUE, OPERATOR)).toBe('removed')

    expect(await store.limits()).toEqual([])
    await enqueueGroup(store, 2)
    expect(await claimFlow(store)).toMatchObject({ state: { more: false } })
    expect(await store.stats(QUEUE)).toMatchObject({ running: 2 })
  },

  'a limited job without a group keeps its limits': async ({ store, expect }) => {
    await setLimit(store, { concurrency: 1 })
    await store.settle([released(await startJob(store, limitedBy(LIMIT)))])
    await enqueueJob(store, limitedBy(LIMIT))

    expect(await claimJobs(store)).toHaveLength(1)
  },
}

export const flowKeptFacts: Facts = { ...slots, ...moves }
