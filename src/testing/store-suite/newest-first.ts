// Newest first: where jobs with `lifo` wait.

import type { Facts } from './context.js'
import { LIMIT, limitedBy, setLimit } from './flow-samples.js'
import { dead, MINUTE_MS, newJob, newJobs, OPERATOR, QUEUE, released, retrying, SECOND_MS } from './samples.js'
import { claimIds, claimJob, enqueueEach, enqueueJob, startJob, stateOf } from './steps.js'

const FIRST = { lifo: true } as const

export const newestFirstFacts: Facts = {
  'of jobs that go newest first the newest is claimed first, and all before the backlog': async ({ store, expect }) => {
    const [old, one, two, late, three] = await enqueueEach(store, [{}, FIRST, FIRST, {}, FIRST])

    expect(await claimIds(store)).toEqual([three, two, one, old, late])
  },

  'one that comes while others are claimed one by one is next': async ({ store, expect }) => {
    const [one, two] = await enqueueEach(store, [FIRST, FIRST])

    expect((await claimJob(store)).id).toBe(two)
    const three = await enqueueJob(store, FIRST)
    expect(await claimIds(store)).toEqual([three, one])
  },

  'of a batch the last is the newest': async ({ store, expect }) => {
    const jobs = newJobs(3, FIRST)
    const plain = newJob()
    await store.enqueue([jobs[0]!, plain, jobs[1]!, jobs[2]!])

    expect(await claimIds(store)).toEqual([jobs[2]!.id, jobs[1]!.id, jobs[0]!.id, plain.id])
  },

  'of a batch of many the last is the newest': async ({ store, expect }) => {
    const [jobs, plain] = [newJobs(40, FIRST), newJobs(40)]
    await store.enqueue([...plain, ...jobs])

    expect(await claimIds(store)).toEqual([...jobs.reverse(), ...plain].map(({ id }) => id))
  },

  'a higher priority goes before the newest': async ({ store, expect }) => {
    const [high, low, normal] = await enqueueEach(store, [{ priority: 1 }, { ...FIRST, priority: -1 }, FIRST])

    expect(await claimIds(store)).toEqual([high, normal, low])
  },

  'a job whose time has come goes before the newest': async ({ store, clock, expect }) => {
    const [timed, newest] = await enqueueEach(store, [{ when: { delayMs: SECOND_MS } }, FIRST])
    await clock.advance(SECOND_MS)
    await store.promote(10)

    expect(await claimIds(store)).toEqual([timed, newest])
  },

  'one with a time waits for it like any other': async ({ store, clock, expect }) => {
    const [timed, newest] = await enqueueEach(store, [{ ...FIRST, when: { delayMs: SECOND_MS } }, FIRST])
    expect(await stateOf(store, timed!)).toBe('scheduled')
    await clock.advance(SECOND_MS)
    await store.promote(10)

    expect(await claimIds(store)).toEqual([timed, newest])
  },

  'its retry goes to the end of its queue': async ({ store, clock, expect }) => {
    const job = await startJob(store, FIRST)
    const [old, newest] = await enqueueEach(store, [{}, FIRST])
    await store.settle([retrying(job)])
    await clock.advance(SECOND_MS)
    await store.promote(10)

    expect(await claimIds(store)).toEqual([newest, old, job.id])
  },

  'requeued, it goes to the end of its queue': async ({ store, expect }) => {
    const job = await startJob(store, FIRST)
    await store.settle([dead(job)])
    const old = await enqueueJob(store)
    await store.requeue([job.id], OPERATOR)

    expect(await claimIds(store)).toEqual([old, job.id])
  },

  'released, it goes before the newest like any other': async ({ store, expect }) => {
    const job = await startJob(store)
    const newest = await enqueueJob(store, FIRST)
    await store.settle([released(job)])

    expect(await claimIds(store)).toEqual([job.id, newest])
  },

  'one that comes after another goes to the end when that has finished': async ({ store, expect }) => {
    const parent = await enqueueJob(store, { queue: 'parents' })
    const child = await enqueueJob(store, { ...FIRST, after: [parent] })
    const [old, newest] = await enqueueEach(store, [{}, FIRST])
    await store.cancel([parent], OPERATOR)
    expect(await stateOf(store, child)).toBe('cancelled')

    expect(await claimIds(store)).toEqual([newest, old])
  },

  'it is found where it waits: moved to another priority, counted, cancelled, deleted': async ({ store, expect }) => {
    const [one, two, three, four] = await enqueueEach(store, [FIRST, FIRST, FIRST, FIRST])
    await store.update(one!, { priority: 5 }, OPERATOR)
    await store.cancel([two!], OPERATOR)
    await store.delete([three!], OPERATOR)

    expect((await store.standing(four!))!.ahead).toEqual({ count: 1, isExact: true })
    expect(await claimIds(store)).toEqual([one, four])
  },

  'an enqueue that is repeated leaves it where it is': async ({ store, expect }) => {
    const [one, two] = newJobs(2, FIRST)
    await store.enqueue([one!])
    await store.enqueue([two!])
    await store.enqueue([one!])

    expect(await claimIds(store)).toEqual([two!.id, one!.id])
  },

  'the oldest of them counts for how long its queue waits': async ({ store, clock, expect }) => {
    await enqueueJob(store, FIRST)
    await clock.advance(MINUTE_MS)
    await enqueueJob(store, FIRST)

    const { queues } = await store.overview()

    expect(queues.find(({ name }) => name === QUEUE)!.oldestAgeS).toBe(60)
  },
}

export const newestFirstFlowFacts: Facts = {
  'under a limit the newest is claimed first too': async ({ store, expect }) => {
    await setLimit(store, { concurrency: 1 })
    const jobs = [{ ...limitedBy(LIMIT) }, { ...limitedBy(LIMIT), ...FIRST }, { ...limitedBy(LIMIT), ...FIRST }]
    const ids = await enqueueEach(store, jobs)

    expect(await claimIds(store)).toEqual([ids[2]])
  },
}
