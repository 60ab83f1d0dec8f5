// Debounce and replace: a job that waits takes the payload of a newer one.

import type { ReplaceRule } from '../../core/flow/carried.js'
import type { Facts } from './context.js'
import { dead, MINUTE_MS, newJob, OPERATOR, retrying, SECOND_MS, START_MS, succeeded } from './samples.js'
import { claimIds, claimJob, claimJobs, runNext, stateOf, viewOf } from './steps.js'

const KEY = { idempotencyKey: { key: 'doc:1', ttlMs: null } }
const NOW: ReplaceRule = { waitMs: 0, maxWaitMs: null }
const IN_5S: ReplaceRule = { waitMs: 5_000, maxWaitMs: 12_000 }

function version(number: number, replace: ReplaceRule = NOW) {
  return newJob({ ...KEY, replace, payload: `{"version":${number}}`, tags: [`v${number}`] })
}

export const replaceFacts: Facts = {
  'the first job with a key is written as any other': async ({ store, expect }) => {
    const job = version(1)

    expect(await store.enqueue([job])).toEqual([{ id: job.id, created: true, state: 'ready' }])
  },

  'a ready job takes the payload of a newer one': async ({ store, expect }) => {
    const [first, second] = [version(1), version(2)]
    await store.enqueue([first])

    expect(await store.enqueue([second])).toEqual([{ id: first.id, created: false, replaced: true, state: 'ready' }])

    const jobs = await claimJobs(store)
    expect(jobs).toMatchObject([{ id: first.id, payload: '{"version":2}', tags: ['v2'] }])
    expect(await store.get(second.id)).toBe(null)
  },

  'jobs of one call replace each other': async ({ store, expect }) => {
    const jobs = [version(1), version(2), version(3)]

    const answers = await store.enqueue(jobs)

    expect(answers.map(({ id }) => id)).toEqual([jobs[0]!.id, jobs[0]!.id, jobs[0]!.id])
    expect(await claimJobs(store)).toMatchObject([{ payload: '{"version":3}' }])
  },

  'a job that waits for a quiet time begins its wait again with each payload': async ({ store, clock, expect }) => {
    const job = version(1, IN_5S)
    expect(await store.enqueue([job])).toMatchObject([{ state: 'scheduled' }])
    await clock.advance(4 * SECOND_MS)

    await store.enqueue([version(2, IN_5S)])

    expect((await viewOf(store, job.id)).runAt).toEqual(new Date(START_MS + 9_000))
  },

  'it waits no longer than its longest wait': async ({ store, clock, expect }) => {
    const job = version(1, IN_5S)
    await store.enqueue([job])
    for (let round = 0; round < 3; round++) {
      await clock.advance(3 * SECOND_MS)
      await store.enqueue([version(round + 2, IN_5S)])
    }

    expect((await viewOf(store, job.id)).runAt).toEqual(new Date(START_MS + 12_000))
  },

  'without a longest wait it waits as long as payloads come': async ({ store, clock, expect }) => {
    const rule = { waitMs: 5_000, maxWaitMs: null }
    const job = version(1, rule)
    await store.enqueue([job])
    for (let round = 0; round < 10; round++) {
      await clock.advance(4 * SECOND_MS)
      await store.enqueue([version(round + 2, rule)])
    }

    expect((await viewOf(store, job.id)).runAt).toEqual(new Date(START_MS + 45_000))
  },

  'a job that is due keeps its place and takes the payload': async ({ store, clock, expect }) => {
    const job = version(1, IN_5S)
    await store.enqueue([job])
    await clock.advance(5 * SECOND_MS)
    await store.promote(10)

    expect(await store.enqueue([version(2, IN_5S)])).toMatchObject([{ id: job.id, replaced: true, state: 'ready' }])
    expect(await claimJobs(store)).toMatchObject([{ payload: '{"version":2}' }])
  },

  'while a job runs, a newer payload waits as its successor': async ({ store, expect }) => {
    await store.enqueue([version(1)])
    const running = await claimJob(store)
    const next = version(2)

    expect(await store.enqueue([next])).toEqual([{ id: next.id, created: true, state: 'blocked' }])
    expect(await claimIds(store)).toEqual([])
    await store.settle([succeeded(running)])
    expect(await claimJobs(store)).toMatchObject([{ id: next.id, payload: '{"version":2}' }])
  },

  'a successor takes the payloads that come meanwhile': async ({ store, expect }) => {
    await store.enqueue([version(1)])
    const running = await claimJob(store)
    const next = version(2)
    await store.enqueue([next])

    expect(await store.enqueue([version(3)])).toEqual([
      { id: next.id, created: false, replaced: true, state: 'blocked' },
    ])
    await store.settle([succeeded(running)])
    expect(await claimJobs(store)).toMatchObject([{ id: next.id, payload: '{"version":3}' }])
  },

  'a successor runs whatever the end of the job before it': async ({ store, expect }) => {
    await store.enqueue([version(1)])
    const running = await claimJob(store)
    const next = version(2)
    await store.enqueue([next])

    await store.settle([dead(running)])

    expect(await claimIds(store)).toEqual([next.id])
  },

  'a successor has the key when the job before it has ended': async ({ store, expect }) => {
    await store.enqueue([version(1)])
    const running = await claimJob(store)
    const next = version(2)
    await store.enqueue([next])
    await store.settle([succeeded(running)])

    expect(await store.enqueue([version(3)])).toMatchObject([{ id: next.id, replaced: true }])
    await runNext(store, succeeded)
    expect(await store.enqueue([version(4)])).toMatchObject([{ created: true }])
  },

  'there is one successor of a successor': async ({ store, expect }) => {
    const ids: string[] = []
    await store.enqueue([version(0)])
    for (let round = 1; round < 4; round++) {
      const running = await claimJob(store)
      const [answer] = await store.enqueue([version(round)])
      ids.push(answer!.id)
      await store.settle([succeeded(running)])
    }

    expect(new Set(ids).size).toBe(3)
    expect((await claimJob(store)).payload).toBe('{"version":3}')
  },

  'a job that retries takes the payload and keeps its time': async ({ store, clock, expect }) => {
    const job = version(1)
    await store.enqueue([job])
    await store.settle([retrying(await claimJob(store), MINUTE_MS)])

    expect(await store.enqueue([version(2)])).toMatchObject([{ id: job.id, replaced: true, state: 'retrying' }])

    expect((await viewOf(store, job.id)).runAt).toEqual(new Date(START_MS + MINUTE_MS))
    await clock.advance(MINUTE_MS)
    await store.promote(10)
    expect(await claimJobs(store)).toMatchObject([{ payload: '{"version":2}' }])
  },

  'a running job that retries keeps its own payload, and its successor waits': async ({ store, clock, expect }) => {
    await store.enqueue([version(1)])
    const running = await claimJob(store)
    const next = version(2)
    await store.enqueue([next])
    await store.settle([retrying(running, SECOND_MS)])
    await clock.advance(SECOND_MS)
    await store.promote(10)

    const again = await claimJob(store)

    expect(again.payload).toBe('{"version":1}')
    expect(await stateOf(store, next.id)).toBe('blocked')
    await store.settle([succeeded(again)])
    expect(await claimIds(store)).toEqual([next.id])
  },

  'a cancelled successor leaves room for another': async ({ store, expect }) => {
    await store.enqueue([version(1)])
    const running = await claimJob(store)
    const next = version(2)
    await store.enqueue([next])
    await store.cancel([next.id], OPERATOR)

    const another = version(3)
    expect(await store.enqueue([another])).toMatchObject([{ id: another.id, created: true, state: 'blocked' }])
    await store.settle([succeeded(running)])
    expect(await claimIds(store)).toEqual([another.id])
  },

  'a cancelled job frees its key for the next': async ({ store, expect }) => {
    const job = version(1, IN_5S)
    await store.enqueue([job])
    await store.cancel([job.id], OPERATOR)

    expect(await store.enqueue([version(2, IN_5S)])).toMatchObject([{ created: true, state: 'scheduled' }])
  },

  'a job without the rule is kept away by the key and changes nothing': async ({ store, expect }) => {
    const job = version(1)
    await store.enqueue([job])

    expect(await store.enqueue([newJob({ ...KEY, payload: '{"version":9}' })])).toEqual([
      { id: job.id, created: false, state: 'ready' },
    ])
    expect((await viewOf(store, job.id)).payload).toEqual({ version: 1 })
  },

  'a repeated call replaces with the same payload and changes nothing': async ({ store, expect }) => {
    const [first, second] = [version(1), version(2)]
    await store.enqueue([first])
    await store.enqueue([second])

    expect(await store.enqueue([second])).toMatchObject([{ id: first.id, replaced: true }])
    expect(await store.enqueue([first])).toMatchObject([{ id: first.id, created: true }])
    expect((await viewOf(store, first.id)).payload).toEqual({ version: 2 })
  },

  'keys of two queues are two keys': async ({ store, expect }) => {
    await store.enqueue([version(1)])
    const other = { ...version(2), queue: 'push' }

    expect(await store.enqueue([other])).toMatchObject([{ id: other.id, created: true }])
  },

  'callers that replace concurrently get one job with one of their payloads': async ({ store, openPeer, expect }) => {
    const peers = [store, await openPeer(), await openPeer()]

    const answers = await Promise.all(peers.map((each, index) => each.enqueue([version(index)]).catch(() => [null])))

    const ids = new Set(answers.flatMap(([answer]) => (answer === null ? [] : [answer!.id])))
    expect(ids.size).toBe(1)
    expect(await claimIds(store)).toHaveLength(1)
  },
}
