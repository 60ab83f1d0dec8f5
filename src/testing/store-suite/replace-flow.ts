// Debounce and replace of jobs under flow control: groups, limits, full queues.

import type { ReplaceRule } from '../../core/flow/carried.js'
import type { NewJob } from '../../core/job.js'
import type { Facts } from './context.js'
import { claimFlow, enqueueGroup, GROUP, inGroup, limitedBy, setFlow, setLimit } from './flow-samples.js'
import { keyed, newJob, succeeded } from './samples.js'
import { claimJob, enqueueJob, stateOf, viewOf } from './steps.js'

const KEY = 'doc:1'
const NOW: ReplaceRule = { waitMs: 0, maxWaitMs: null }
const IN_5S: ReplaceRule = { waitMs: 5_000, maxWaitMs: 12_000 }

function version(number: number, changes: Partial<NewJob> = {}): NewJob {
  return newJob({ ...keyed(KEY), replace: NOW, payload: `{"version":${number}}`, version: number, ...changes })
}

export const replaceFlowFacts: Facts = {
  'a job of a group that waits for its turn takes the payload and keeps its place': async ({ store, expect }) => {
    await setFlow(store, { groups: { concurrency: 1 } })
    const first = version(1, inGroup())
    await store.enqueue([first])
    const [second] = await enqueueGroup(store, 1)

    expect(await store.enqueue([version(2, inGroup())])).toMatchObject([
      { id: first.id, replaced: true, state: 'ready' },
    ])

    const { jobs } = await claimFlow(store)
    expect(jobs).toMatchObject([{ id: first.id, payload: '{"version":2}' }])
    await store.settle([succeeded(jobs[0]!)])
    expect((await claimFlow(store)).ids).toEqual([second])
  },

  'in an ordered group a job keeps its place with a newer payload': async ({ store, expect }) => {
    await setFlow(store, { groups: { ordered: true } })
    const ids = await enqueueGroup(store, 1)
    const job = version(1, inGroup())
    await store.enqueue([job])
    ids.push(job.id, ...(await enqueueGroup(store, 1)))

    await store.enqueue([version(2, inGroup())])

    for (const id of ids) {
      const { jobs } = await claimFlow(store)
      expect(jobs.map((each) => each.id)).toEqual([id])
      await store.settle(jobs.map((each) => succeeded(each)))
    }
  },

  'a successor waits for the job before it, then for its group': async ({ store, expect }) => {
    await setFlow(store, { groups: { concurrency: 1 } })
    await store.enqueue([version(1, inGroup())])
    const { jobs } = await claimFlow(store)
    const next = version(2, inGroup())
    await store.enqueue([next])
    const [other] = await enqueueGroup(store, 1)
    await store.settle([succeeded(jobs[0]!)])

    const ids = [...(await claimFlow(store)).ids]

    expect(ids).toHaveLength(1)
    expect([next.id, other]).toContain(ids[0])
    expect(await stateOf(store, next.id)).toBe(ids[0] === next.id ? 'running' : 'ready')
  },

  'a successor that names a limit nobody has set is refused, and nothing is written': async ({ store, expect }) => {
    await setLimit(store)
    const job = version(1, limitedBy('stripe'))
    await store.enqueue([job])
    const { jobs } = await claimFlow(store)
    const next = version(2, limitedBy('unknown'))

    expect(await store.enqueue([next])).toEqual([{ id: next.id, refused: { code: 'limit_unknown', limit: 'unknown' } }])
    expect(await store.get(next.id)).toBe(null)
    await store.settle([succeeded(jobs[0]!)])
    expect(await store.enqueue([version(3)])).toMatchObject([{ created: true }])
  },

  'a queue that is full takes a debounced job, which is not ready yet': async ({ store, expect }) => {
    await setFlow(store, { maxDepth: 1 })
    await enqueueJob(store)

    expect(await store.enqueue([version(1, { replace: IN_5S })])).toMatchObject([{ created: true, state: 'scheduled' }])
  },

  'a queue that is full lets a job take a newer payload': async ({ store, expect }) => {
    await setFlow(store, { maxDepth: 1 })
    const job = version(1)
    await store.enqueue([job])

    expect(await store.enqueue([version(2)])).toMatchObject([{ id: job.id, replaced: true }])
  },

  'a successor that is refused for its limit leaves its place to the next of its call': async ({ store, expect }) => {
    await store.enqueue([version(1)])
    await claimJob(store)
    const [refused, next] = [version(2, limitedBy('nobody')), version(3)]

    expect(await store.enqueue([refused, next, version(4)])).toMatchObject([
      { id: refused.id, refused: { code: 'limit_unknown', limit: 'nobody' } },
      { id: next.id, created: true, state: 'blocked' },
      { id: next.id, created: false, replaced: true, state: 'blocked' },
    ])
    expect(await viewOf(store, next.id)).toMatchObject({ payload: { version: 4 } })
  },

  'a job whose key a refused one has left keeps its place in the call': async ({ store, expect }) => {
    const refused = newJob({ ...keyed(KEY), ...limitedBy('nobody') })
    const [first, second] = [newJob({ ...keyed(KEY), ...inGroup() }), newJob(inGroup())]
    await store.enqueue([refused, first, second])

    expect((await claimFlow(store)).ids).toEqual([first.id, second.id])
  },

  'the payload of a job of another group is replaced in the group it has': async ({ store, expect }) => {
    await setFlow(store, { groups: { concurrency: 1 } })
    const job = version(1, inGroup(GROUP))
    await store.enqueue([job])
    await store.enqueue([version(2, inGroup('other'))])

    const { jobs } = await claimFlow(store)

    expect(jobs).toMatchObject([{ id: job.id, payload: '{"version":2}', flow: { group: GROUP } }])
  },
}
