// Back-pressure, aging, and what explains why a job waits.

import { JOB_STATES } from '../../core/states.js'
import type { Facts } from './context.js'
import {
  enqueueGroup,
  GROUP,
  groupJobs,
  inGroup,
  LIMIT,
  limitedBy,
  perSecond,
  setFlow,
  setLimit,
} from './flow-samples.js'
import {
  dead,
  keyed,
  MINUTE_MS,
  newJob,
  newJobs,
  newSchedule,
  OPERATOR,
  QUEUE,
  retrying,
  SECOND_MS,
  START_MS,
} from './samples.js'
import { claimIds, claimJob, claimJobs, enqueueEach, enqueueJob, jobIn, startJob } from './steps.js'

/** Waits longer than a store may go by an old count. */
const RECOUNT_MS = 300

const depth: Facts = {
  'a full queue takes no more ready jobs': async ({ store, clock, expect }) => {
    await setFlow(store, { maxDepth: 3, onFull: 'wait' })
    await store.enqueue(newJobs(3))
    await clock.advance(RECOUNT_MS)
    const job = newJob()

    expect(await store.enqueue([job])).toEqual([
      { id: job.id, refused: { code: 'queue_full', queue: QUEUE, maxDepth: 3, onFull: 'wait' } },
    ])
    expect(await store.get(job.id)).toBe(null)
  },

  'a queue that was full takes jobs again when some have started': async ({ store, clock, expect }) => {
    await setFlow(store, { maxDepth: 3 })
    await store.enqueue(newJobs(3))
    await clock.advance(RECOUNT_MS)
    await store.enqueue([newJob()])

    await claimJobs(store, { limit: 1 })
    await clock.advance(RECOUNT_MS)

    expect(await store.enqueue([newJob()])).toMatchObject([{ created: true, state: 'ready' }])
  },

  'plain jobs and those of groups fill a queue together': async ({ store, clock, expect }) => {
    await setFlow(store, { maxDepth: 2 })
    await store.enqueue([newJob(), newJob(inGroup())])
    await clock.advance(RECOUNT_MS)

    expect(await store.enqueue([newJob(), newJob(inGroup())])).toMatchObject([
      { refused: { code: 'queue_full' } },
      { refused: { code: 'queue_full' } },
    ])
  },

  'a full queue takes jobs that are not ready now': async ({ store, clock, expect }) => {
    await setFlow(store, { maxDepth: 1 })
    const parent = await enqueueJob(store)
    await clock.advance(RECOUNT_MS)

    const answers = await store.enqueue([newJob({ when: { delayMs: 1_000 } }), newJob({ after: [parent] })])

    expect(answers).toMatchObject([{ state: 'scheduled' }, { state: 'blocked' }])
  },

  'a full queue leaves what it has alone': async ({ store, clock, expect }) => {
    await setFlow(store, { maxDepth: 1 })
    const job = await startJob(store)
    await enqueueJob(store)
    await clock.advance(RECOUNT_MS)

    await store.settle([dead(job)])
    expect(await store.requeue([job.id], OPERATOR)).toMatchObject([{ result: 'requeued' }])
  },

  'a full queue answers for a job it knows': async ({ store, clock, expect }) => {
    await setFlow(store, { maxDepth: 1 })
    const job = newJob()
    await store.enqueue([job])
    await clock.advance(RECOUNT_MS)

    expect(await store.enqueue([job])).toMatchObject([{ id: job.id, created: true }])
  },

  'a full queue takes the job of a tick': async ({ store, clock, expect }) => {
    await setFlow(store, { maxDepth: 1 })
    await enqueueJob(store)
    await store.setSchedule(newSchedule(), START_MS, OPERATOR)
    await clock.advance(RECOUNT_MS)
    const ticks = [{ tickMs: START_MS, job: newJob() }]

    const fired = await store.fire({ name: 'nightly', expectedNextAtMs: START_MS, ticks, nextAtMs: null })

    expect(fired.jobs).toEqual([ticks[0]!.job.id])
  },

  'a full group takes no more ready jobs, and the others do': async ({ store, clock, expect }) => {
    await setFlow(store, { groups: { maxDepth: 2 } })
    await store.enqueue(groupJobs(2, 'a'))
    await clock.advance(RECOUNT_MS)

    expect(await store.enqueue([newJob(inGroup('a')), newJob(inGroup('b')), newJob()])).toMatchObject([
      { refused: { code: 'group_full', queue: QUEUE, group: 'a', maxDepth: 2, onFull: 'reject' } },
      { created: true },
      { created: true },
    ])
  },

  'a job that is refused for its limit takes no place from others of its batch': async ({ store, expect }) => {
    await setFlow(store, { maxDepth: 1, groups: { maxDepth: 1 } })

    const jobs = [newJob(inGroup('a', { limits: ['nobody'] })), newJob(inGroup('a')), newJob()]

    expect(await store.enqueue(jobs)).toMatchObject([
      { refused: { code: 'limit_unknown', limit: 'nobody' } },
      { created: true },
      { refused: { code: 'queue_full' } },
    ])
  },

  'a job that its group has no room for takes no place in the queue': async ({ store, expect }) => {
    await setFlow(store, { maxDepth: 2, groups: { maxDepth: 1 } })

    expect(await store.enqueue([...groupJobs(2, 'a'), newJob(), newJob()])).toMatchObject([
      { created: true },
      { refused: { code: 'group_full' } },
      { created: true },
      { refused: { code: 'queue_full' } },
    ])
  },

  'jobs of a batch with one key take one place': async ({ store, expect }) => {
    await setFlow(store, { maxDepth: 2 })
    const [first, second] = [newJob(keyed('once')), newJob(keyed('once'))]

    expect(await store.enqueue([first, second, first, newJob(), newJob()])).toMatchObject([
      { id: first.id, created: true },
      { id: first.id, created: false },
      { id: first.id, created: true },
      { created: true },
      { refused: { code: 'queue_full' } },
    ])
  },

  'a full queue does not take a job for the key that a refused one of its batch leaves': async ({ store, expect }) => {
    await setFlow(store, { maxDepth: 1 })
    await enqueueJob(store)
    const unknown = newJob({ ...limitedBy('nobody'), ...keyed('once'), when: { delayMs: 1_000 } })

    expect(await store.enqueue([unknown, newJob(keyed('once'))])).toMatchObject([
      { refused: { code: 'limit_unknown' } },
      { refused: { code: 'queue_full' } },
    ])
  },

  'a job whose key is held takes no place': async ({ store, expect }) => {
    const held = await startJob(store, keyed('once'))
    await setFlow(store, { maxDepth: 1 })

    expect(await store.enqueue([newJob(keyed('once')), newJob(), newJob()])).toMatchObject([
      { id: held.id, created: false },
      { created: true },
      { refused: { code: 'queue_full' } },
    ])
  },

  'running jobs do not fill a queue': async ({ store, clock, expect }) => {
    await setFlow(store, { maxDepth: 2, groups: { maxDepth: 2 } })
    await store.enqueue(groupJobs(2))
    await claimJobs(store)
    await clock.advance(RECOUNT_MS)

    expect(await store.enqueue(groupJobs(1))).toMatchObject([{ created: true }])
  },

  'a queue without a depth takes any number': async ({ store, expect }) => {
    await setFlow(store, { concurrency: 1 })

    expect((await store.enqueue(newJobs(500))).every((answer) => 'created' in answer)).toBe(true)
  },
}

const aging: Facts = {
  'a job of low priority that waited long enough goes before new ones': async ({ store, clock, expect }) => {
    await setFlow(store, { agingMs: MINUTE_MS })
    const old = await enqueueJob(store, { priority: 0 })
    await clock.advance(3 * MINUTE_MS)
    await enqueueJob(store, { priority: 2 })

    expect(await claimIds(store, { limit: 1 })).toEqual([old])
  },

  'a job of low priority that has not waited long enough goes after them': async ({ store, clock, expect }) => {
    await setFlow(store, { agingMs: MINUTE_MS })
    await enqueueJob(store, { priority: 0 })
    await clock.advance(MINUTE_MS)
    const urgent = await enqueueJob(store, { priority: 2 })

    expect(await claimIds(store, { limit: 1 })).toEqual([urgent])
  },

  'without aging a job of low priority waits however long': async ({ store, clock, expect }) => {
    await setFlow(store, { concurrency: 10 })
    await enqueueJob(store, { priority: 0 })
    await clock.advance(60 * MINUTE_MS)
    const urgent = await enqueueJob(store, { priority: 1 })

    expect(await claimIds(store, { limit: 1 })).toEqual([urgent])
  },

  'jobs of groups age too': async ({ store, clock, expect }) => {
    await setFlow(store, { agingMs: MINUTE_MS })
    const old = await enqueueJob(store, { ...inGroup(), priority: 0 })
    await clock.advance(3 * MINUTE_MS)
    await enqueueJob(store, { ...inGroup(), priority: 2 })

    expect(await claimIds(store, { limit: 1 })).toEqual([old])
  },

  'a priority gives no more than a quarter of a claim before its turn, however old its jobs': async ({
    store,
    clock,
    expect,
  }) => {
    await setFlow(store, { agingMs: SECOND_MS })
    for (const priority of [0, 1]) await store.enqueue(newJobs(20, { priority }))
    await clock.advance(60 * MINUTE_MS)
    await store.enqueue(newJobs(20, { priority: 5 }))

    const priorities = (await claimJobs(store, { limit: 8 })).map(({ priority }) => priority)

    expect(priorities).toEqual([1, 1, 0, 0, 5, 5, 5, 5])
  },

  'a priority gives what is its own beside that quarter': async ({ store, clock, expect }) => {
    await setFlow(store, { agingMs: SECOND_MS })
    await store.enqueue(newJobs(20, { priority: 0 }))
    await clock.advance(60 * MINUTE_MS)
    await store.enqueue(newJobs(3, { priority: 5 }))

    const priorities = (await claimJobs(store, { limit: 8 })).map(({ priority }) => priority)

    expect(priorities).toEqual([0, 0, 5, 5, 5, 0, 0, 0])
  },

  'the quarter holds for the turn of a group': async ({ store, clock, expect }) => {
    await setFlow(store, { agingMs: SECOND_MS })
    await store.enqueue(groupJobs(20, GROUP, { priority: 0 }))
    await clock.advance(60 * MINUTE_MS)
    await store.enqueue(groupJobs(20, GROUP, { priority: 5 }))

    const priorities = (await claimJobs(store, { limit: 12 })).map(({ priority }) => priority)

    expect(priorities).toEqual([0, 0, 0, ...Array<number>(9).fill(5)])
  },

  'old jobs are not starved by claims of one job': async ({ store, clock, expect }) => {
    await setFlow(store, { agingMs: SECOND_MS })
    const old = await enqueueJob(store, { priority: 0 })
    await clock.advance(60 * MINUTE_MS)
    await store.enqueue(newJobs(20, { priority: 5 }))

    expect(await claimIds(store, { limit: 1 })).toEqual([old])
  },

  'jobs of one priority keep their order while they age': async ({ store, clock, expect }) => {
    await setFlow(store, { agingMs: SECOND_MS })
    const [first, second] = await enqueueEach(store, [{}, {}])
    await clock.advance(10 * SECOND_MS)
    const third = await enqueueJob(store)

    expect(await claimIds(store)).toEqual([first, second, third])
  },
}

const standings: Facts = {
  'a plain job of a plain queue stands under no flow control': async ({ store, expect }) => {
    const id = await enqueueJob(store)

    expect('flow' in (await store.standing(id))!).toBe(false)
  },

  "a job's standing names its group and what holds for it": async ({ store, expect }) => {
    await setFlow(store, { groups: { concurrency: 2, rate: perSecond(1, 2) } })
    const ids = await enqueueGroup(store, 3)
    await claimJobs(store)

    expect((await store.standing(ids[2]!))!.flow).toMatchObject({
      group: {
        name: GROUP,
        concurrency: 2,
        running: 2,
        ordered: false,
        paused: false,
        stoppedBy: null,
        until: null,
        waitMs: 1_000,
        first: null,
      },
    })
  },

  "a job's standing names its limits and that of its queue": async ({ store, expect }) => {
    await setLimit(store, { concurrency: 1, rate: perSecond(2, 1) })
    await setFlow(store, { concurrency: 5 })
    await store.enqueue(newJobs(1, limitedBy(LIMIT)))
    await claimJobs(store)
    const id = await enqueueJob(store, limitedBy(LIMIT))

    const { flow } = (await store.standing(id))!

    expect(flow!.group).toBe(null)
    expect(flow!.limits).toMatchObject([
      { name: 'queue:email', concurrency: 5, running: 1, waitMs: 0 },
      { name: LIMIT, concurrency: 1, running: 1, waitMs: 500 },
    ])
  },

  'the standing of an ordered job names the one it waits for': async ({ store, clock, expect }) => {
    await setFlow(store, { groups: { ordered: true } })
    const [first, second] = await enqueueGroup(store, 2)
    const job = await claimJob(store)
    expect((await store.standing(second!))!.flow!.group!.first).toEqual({ id: first, state: 'running', runAt: null })

    await store.settle([retrying(job, SECOND_MS)])

    const runAt = new Date(START_MS + SECOND_MS)
    expect((await store.standing(second!))!.flow!.group!.first).toEqual({ id: first, state: 'retrying', runAt })
    await clock.advance(SECOND_MS)
    await store.promote(10)
    expect((await store.standing(first!))!.flow!.group!.first).toBe(null)
  },

  'the standing of a plain job names the limit of its queue': async ({ store, expect }) => {
    await setFlow(store, { concurrency: 1 })
    await startJob(store)
    const id = await enqueueJob(store)

    expect((await store.standing(id))!.flow).toMatchObject({
      group: null,
      limits: [{ name: 'queue:email', running: 1 }],
    })
  },

  'the standing of a job of a group can be asked for in every state': async ({ store, expect }) => {
    for (const state of JOB_STATES) {
      const id = await jobIn(store, state, { ...inGroup(), queue: `q-${state}` })

      expect((await store.standing(id))!.flow!.group!.name).toBe(GROUP)
    }
  },
}

export const flowDepthFacts: Facts = { ...depth, ...aging, ...standings }
