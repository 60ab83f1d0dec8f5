// Limits by name, shared by any queues and types.

import { NO_LIMIT } from '../../core/flow/settings.js'
import type { Facts } from './context.js'
import { claimFlow, GROUP, groupJobs, inGroup, LIMIT, limitedBy, setFlow, setLimit } from './flow-samples.js'
import {
  dead,
  LEASE_MS,
  newJob,
  newJobs,
  newSchedule,
  OPERATOR,
  QUEUE,
  released,
  START_MS,
  succeeded,
} from './samples.js'
import { claimIds, claimJob, claimJobs, codeOf, enqueueJob, jobIn, startJob } from './steps.js'

const shared: Facts = {
  'a limit lets no more of its jobs run': async ({ store, expect }) => {
    await setLimit(store, { concurrency: 2 })
    await store.enqueue(newJobs(5, limitedBy(LIMIT)))

    expect(await claimIds(store)).toHaveLength(2)
    expect(await claimIds(store)).toEqual([])
  },

  'queues share a limit': async ({ store, expect }) => {
    await setLimit(store, { concurrency: 3 })
    for (const queue of ['email', 'push']) await store.enqueue(newJobs(5, { ...limitedBy(LIMIT), queue }))

    expect(await claimIds(store, { queue: 'email', limit: 2 })).toHaveLength(2)
    expect(await claimIds(store, { queue: 'push' })).toHaveLength(1)
  },

  'queues of one claim share a limit': async ({ store, expect }) => {
    await setLimit(store, { concurrency: 3 })
    const queues = ['email', 'push'].map((queue) => ({ queue, limit: 5 }))
    for (const { queue } of queues) await store.enqueue(newJobs(5, { ...limitedBy(LIMIT), queue }))

    const { jobs } = await store.claim({ queues, types: null, worker: 'w', leaseMs: LEASE_MS })

    expect(jobs).toHaveLength(3)
  },

  'types share a limit': async ({ store, expect }) => {
    await setLimit(store, { concurrency: 1 })
    for (const type of ['a', 'b']) await enqueueJob(store, { ...limitedBy(LIMIT), type })

    expect(await claimIds(store)).toHaveLength(1)
  },

  'sets of limits share the limit they have in common': async ({ store, expect }) => {
    for (const name of ['a', 'b', LIMIT]) await setLimit(store, name === LIMIT ? { concurrency: 2 } : {}, name)
    await store.enqueue([...newJobs(5, limitedBy('a', LIMIT)), ...newJobs(5, limitedBy('b', LIMIT))])

    expect(await claimIds(store)).toHaveLength(2)
  },

  'a job counts in all of its limits, or does not start': async ({ store, expect }) => {
    await setLimit(store, { concurrency: 5 }, 'wide')
    await setLimit(store, { concurrency: 1 }, 'narrow')
    await store.enqueue(newJobs(3, limitedBy('narrow', 'wide')))

    expect(await claimIds(store)).toHaveLength(1)
    const running = (await store.limits()).map((limit) => limit.running)
    expect(running).toEqual([1, 1])
  },

  'a full limit leaves jobs that do not name it': async ({ store, expect }) => {
    await setLimit(store, { concurrency: 1 })
    await store.enqueue(newJobs(3, limitedBy(LIMIT)))
    await claimJobs(store)

    const [plain, grouped] = [await enqueueJob(store), await enqueueJob(store, inGroup())]

    expect((await claimIds(store)).sort()).toEqual([plain, grouped].sort())
  },

  'a group goes on with jobs that do not name a full limit': async ({ store, expect }) => {
    await setLimit(store, { concurrency: 1 })
    await store.enqueue(groupJobs(3, GROUP, inGroup(GROUP, { limits: [LIMIT] })))
    await claimJobs(store)

    const id = await enqueueJob(store, inGroup())

    expect(await claimIds(store)).toEqual([id])
  },

  'a settlement in one queue makes room in another': async ({ store, expect }) => {
    await setLimit(store, { concurrency: 1 })
    const job = await startJob(store, { ...limitedBy(LIMIT), queue: 'push' })
    const id = await enqueueJob(store, limitedBy(LIMIT))
    expect(await claimIds(store)).toEqual([])

    await store.settle([succeeded(job)])

    expect(await claimIds(store)).toEqual([id])
  },

  'claims of two queues made concurrently keep to a shared limit': async ({ store, openPeer, expect }) => {
    await setLimit(store, { concurrency: 4 })
    const queues = ['email', 'push', 'sms']
    for (const queue of queues) await store.enqueue(newJobs(10, { ...limitedBy(LIMIT), queue }))
    const peers = [store, await openPeer(), await openPeer()]

    const claims = await Promise.all(
      peers.flatMap((each) => queues.map((queue) => claimIds(each, { queue, limit: 3 }))),
    )

    expect(claims.flat()).toHaveLength(4)
  },

  'a lease that ran out counts in its limits until it is rescued': async ({ store, clock, expect }) => {
    await setLimit(store, { concurrency: 1 })
    await store.enqueue(newJobs(2, limitedBy(LIMIT)))
    const job = await claimJob(store)
    await clock.advance(LEASE_MS * 2)
    expect(await claimIds(store)).toEqual([])

    await store.settle([released(job)], { onlyExpired: true })

    expect(await claimIds(store)).toHaveLength(1)
  },

  'jobs with limits and no group go by priority': async ({ store, expect }) => {
    await setLimit(store, { concurrency: 1 })
    await enqueueJob(store, limitedBy(LIMIT))
    const urgent = await enqueueJob(store, { ...limitedBy(LIMIT), priority: 3 })

    expect(await claimIds(store)).toEqual([urgent])
  },

  'limit, group and queue hold together': async ({ store, expect }) => {
    await setLimit(store, { concurrency: 4 })
    await setFlow(store, { concurrency: 3, groups: { concurrency: 2 } })
    await store.enqueue(groupJobs(5, 'a', inGroup('a', { limits: [LIMIT] })))
    expect(await claimIds(store)).toHaveLength(2)
    await store.enqueue(groupJobs(5, 'b', inGroup('b', { limits: [LIMIT] })))

    expect(await claimIds(store)).toHaveLength(1)
  },
}

const changed: Facts = {
  'a raised limit lets waiting jobs go': async ({ store, expect }) => {
    await setLimit(store, { concurrency: 1 })
    await store.enqueue(newJobs(5, limitedBy(LIMIT)))
    await claimJobs(store)

    await setLimit(store, { concurrency: 3 })

    expect(await claimIds(store)).toHaveLength(2)
  },

  'a lowered limit lets running jobs end': async ({ store, expect }) => {
    await setLimit(store, { concurrency: 3 })
    await store.enqueue(newJobs(6, limitedBy(LIMIT)))
    const [first, second, third] = await claimJobs(store)

    await setLimit(store, { concurrency: 1 })

    await store.settle([succeeded(first!), succeeded(second!)])
    expect(await claimIds(store)).toEqual([])
    await store.settle([succeeded(third!)])
    expect(await claimIds(store)).toHaveLength(1)
  },

  'a limit set to nothing lets everything go': async ({ store, expect }) => {
    await setLimit(store, { concurrency: 1 })
    await store.enqueue(newJobs(5, limitedBy(LIMIT)))
    await claimJobs(store)

    await setLimit(store, {})

    expect(await claimIds(store)).toHaveLength(4)
  },

  'a job that names a limit nobody has set is not written': async ({ store, expect }) => {
    const job = newJob(limitedBy('stirpe'))

    const answers = await store.enqueue([job])

    expect(answers).toEqual([{ id: job.id, refused: { code: 'limit_unknown', limit: 'stirpe' } }])
    expect(await store.get(job.id)).toBe(null)
  },

  'the limit of a type need not be set before jobs name it': async ({ store, expect }) => {
    await store.enqueue(newJobs(3, limitedBy('type:send_email')))
    expect(await claimIds(store, { limit: 1 })).toHaveLength(1)

    await setLimit(store, { concurrency: 2 }, 'type:send_email')

    expect(await claimIds(store)).toHaveLength(1)
  },

  'the neighbours of a job that names an unknown limit are written': async ({ store, expect }) => {
    await setLimit(store)
    const jobs = [newJob(limitedBy(LIMIT)), newJob(limitedBy('none')), newJob()]

    const answers = await store.enqueue(jobs)

    expect(answers.map((answer) => 'created' in answer)).toEqual([true, false, true])
    expect(await claimIds(store)).toHaveLength(2)
  },

  'a limit is removed when no job names it': async ({ store, expect }) => {
    await setLimit(store)

    expect(await store.removeLimit(LIMIT, OPERATOR)).toBe('removed')
    expect(await store.limits()).toEqual([])
    expect(await store.removeLimit(LIMIT, OPERATOR)).toBe('missing')
  },

  'a limit that a schedule names is not removed': async ({ store, expect }) => {
    await setLimit(store)
    await store.setSchedule(newSchedule(limitedBy(LIMIT)), START_MS, OPERATOR)

    expect(await store.removeLimit(LIMIT, OPERATOR)).toBe('busy')
    await store.removeSchedule('nightly', OPERATOR)
    expect(await store.removeLimit(LIMIT, OPERATOR)).toBe('removed')
  },

  'a limit whose jobs have ended is removed': async ({ store, expect }) => {
    await setLimit(store)
    for (const state of ['succeeded', 'cancelled'] as const) await jobIn(store, state, limitedBy(LIMIT))

    expect(await store.removeLimit(LIMIT, OPERATOR)).toBe('removed')
  },

  'a limit that a dead job names is not removed before it is discarded': async ({ store, expect }) => {
    await setLimit(store)
    const job = await startJob(store, limitedBy(LIMIT))
    await store.settle([dead(job)])

    expect(await store.removeLimit(LIMIT, OPERATOR)).toBe('busy')
    await store.discard([job.id], OPERATOR)
    expect(await store.removeLimit(LIMIT, OPERATOR)).toBe('removed')
  },

  'a schedule that names a limit nobody has set is refused': async ({ store, expect }) => {
    expect(await codeOf(store.setSchedule(newSchedule(limitedBy('none')), START_MS, OPERATOR))).toBe('limit_unknown')
    expect(await store.schedules()).toEqual([])
  },

  'a limit of a queue is not set by its name': async ({ store, expect }) => {
    expect(await codeOf(setLimit(store, { concurrency: 1 }, 'queue:email'))).toBe('invalid_name')
    expect(await store.removeLimit('queue:email', OPERATOR)).toBe('missing')
  },

  'the jobs of a queue have at most 64 sets of limits': async ({ store, expect }) => {
    const names = Array.from({ length: 65 }, (_, index) => `limit-${index}`)
    for (const name of names) await setLimit(store, {}, name)
    await store.enqueue(names.slice(0, 64).map((name) => newJob(limitedBy(name))))
    const job = newJob(limitedBy('limit-64'))

    expect(await store.enqueue([job])).toEqual([{ id: job.id, refused: { code: 'too_many_tracks', max: 64 } }])
    expect(await store.enqueue([newJob(limitedBy('limit-0'))])).toMatchObject([{ created: true }])
    expect(await store.enqueue([newJob({ ...limitedBy('limit-64'), queue: 'push' })])).toMatchObject([
      { created: true },
    ])
  },
}

const busy: Facts = Object.fromEntries(
  (['ready', 'scheduled', 'blocked', 'running', 'retrying'] as const).map((state) => [
    `a limit that a ${state} job names is not removed`,
    async ({ store, expect }) => {
      await setLimit(store, { concurrency: 1 })
      await jobIn(store, state, limitedBy(LIMIT))

      expect(await store.removeLimit(LIMIT, OPERATOR)).toBe('busy')
      expect((await store.limits()).map(({ name }) => name)).toEqual([LIMIT])
    },
  ]),
) as Facts

const shown: Facts = {
  'limits are listed by name with what counts in them': async ({ store, expect }) => {
    await setLimit(store, { concurrency: 2 }, 'b')
    await setLimit(store, {}, 'a')
    await store.enqueue(newJobs(5, limitedBy('b')))
    await claimJobs(store)

    expect(await store.limits()).toMatchObject([
      { name: 'a', concurrency: null, rate: null, running: 0, tokens: null, until: null, origin: 'operator' },
      { name: 'b', concurrency: 2, rate: null, running: 2 },
    ])
  },

  'the limit of a queue is listed while the queue has one': async ({ store, expect }) => {
    await setFlow(store, { concurrency: 2 })
    await store.enqueue(newJobs(3))
    await claimJobs(store)

    expect(await store.limits()).toMatchObject([{ name: 'queue:email', concurrency: 2, running: 2 }])
    await store.setQueue(QUEUE, { limits: {} }, OPERATOR)
    expect(await store.limits()).toEqual([])
  },

  'setting a limit answers with what holds': async ({ store, expect }) => {
    expect(await setLimit(store, { concurrency: 7 })).toMatchObject({ name: LIMIT, concurrency: 7, running: 0 })
  },

  "what a definition asks for never replaces an operator's limit": async ({ store, expect }) => {
    await setLimit(store, { concurrency: 7 })

    const held = await store.setLimit(LIMIT, { ...NO_LIMIT, concurrency: 1 }, 'worker', 'definition')

    expect(held).toMatchObject({ concurrency: 7, origin: 'operator' })
  },

  'an operator replaces what a definition asked for': async ({ store, expect }) => {
    await store.setLimit(LIMIT, { ...NO_LIMIT, concurrency: 1 }, 'worker', 'definition')

    expect(await setLimit(store, { concurrency: 7 })).toMatchObject({ concurrency: 7, origin: 'operator' })
  },

  'of two definitions that disagree the later one holds': async ({ store, expect }) => {
    await store.setLimit(LIMIT, { ...NO_LIMIT, concurrency: 1 }, 'worker', 'definition')

    const held = await store.setLimit(LIMIT, { ...NO_LIMIT, concurrency: 2 }, 'worker', 'definition')

    expect(held).toMatchObject({ concurrency: 2, origin: 'definition' })
  },

  'a claim says which of its queues wait for a limit': async ({ store, expect }) => {
    await setLimit(store, { concurrency: 1 })
    await store.enqueue(newJobs(2, limitedBy(LIMIT)))

    expect((await claimFlow(store)).state).toEqual({ queue: QUEUE, more: false, waitMs: null })
  },
}

export const flowLimitFacts: Facts = { ...shared, ...changed, ...busy, ...shown }
