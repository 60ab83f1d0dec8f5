// Queues that become ordered, or are no longer, while jobs wait; and parents within an ordered group.

import type { Facts } from './context.js'
import { claimFlow, enqueueGroup, GROUP, inGroup, LIMIT, setFlow, setLimit } from './flow-samples.js'
import { newJob, released, succeeded } from './samples.js'
import { enqueueEach } from './steps.js'

export const flowOrderedSwitchFacts: Facts = {
  'a job cannot come after a later one of its ordered group, which goes on': async ({ store, expect }) => {
    await setFlow(store, { groups: { ordered: true } })
    const later = newJob(inGroup())
    const first = newJob({ ...inGroup(), after: [later.id] })

    const [answer] = await store.enqueue([first, later])

    expect(answer).toEqual({ id: first.id, unknownParent: later.id })
    expect((await claimFlow(store)).ids).toEqual([later.id])
  },

  'a queue that becomes ordered orders jobs of several sets of limits, by their enqueues': async ({
    store,
    expect,
  }) => {
    await setLimit(store)
    const ids = await enqueueEach(store, [
      { ...inGroup(), priority: -5 },
      { ...inGroup(GROUP, { limits: [LIMIT] }), priority: 9 },
      { ...inGroup(), priority: 3 },
    ])

    await setFlow(store, { groups: { ordered: true } })

    for (const id of ids) {
      const { jobs } = await claimFlow(store)
      expect(jobs.map((job) => job.id)).toEqual([id])
      await store.settle(jobs.map((job) => succeeded(job)))
    }
  },

  'a queue that was ordered in between goes by priority, as if it had not been': async ({ store, expect }) => {
    await setFlow(store, { groups: { concurrency: 1 } })
    const ids = await enqueueEach(store, [{ ...inGroup(), priority: 1 }, inGroup(), { ...inGroup(), priority: 7 }])
    await setFlow(store, { groups: { ordered: true } })
    await setFlow(store, { groups: { concurrency: 1 } })

    for (const index of [2, 0, 1]) {
      const { jobs } = await claimFlow(store)
      expect(jobs.map((job) => job.id)).toEqual([ids[index]])
      await store.settle(jobs.map((job) => succeeded(job)))
    }
  },

  'a released job comes before its group when its queue becomes ordered': async ({ store, expect }) => {
    await setFlow(store, { groups: { concurrency: 2 } })
    const ids = await enqueueGroup(store, 3)
    const { jobs } = await claimFlow(store, { limit: 2 })
    await store.settle([released(jobs[1]!)])
    await store.settle([released(jobs[0]!)])
    await setFlow(store, { groups: { ordered: true } })

    expect((await claimFlow(store)).ids).toEqual([ids[0]])
  },
}
