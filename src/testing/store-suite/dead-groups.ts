// Dead groups and standings: what killed jobs, and what holds the living ones where they are.

import { fingerprint } from '../../core/fingerprint.js'
import type { StoredError } from '../../core/json.js'
import type { Store } from '../../core/store.js'
import type { Facts } from './context.js'
import { dead, FAILURE, keyed, MINUTE_MS, newBeat, newId, OPERATOR, QUEUE, SECOND_MS, START_MS } from './samples.js'
import { claimJob, codeOf, enqueueEach, enqueueJob, jobIn, startJob } from './steps.js'

async function die(
  store: Store,
  error: StoredError | null,
  { queue = QUEUE, type = 'send_email' }: { readonly queue?: string; readonly type?: string } = {},
): Promise<string> {
  const job = await startJob(store, { queue, type })
  await store.settle([dead(job, { error })])
  return job.id
}

const groups: Facts = {
  'there are no groups while nothing is dead': async ({ store, expect }) => {
    await enqueueJob(store)

    expect(await store.deadGroups({ queue: null, limit: 10 })).toEqual([])
  },

  'dead jobs are grouped by what killed them, the most first': async ({ store, clock, expect }) => {
    await die(store, FAILURE)
    await die(store, { name: 'Error', message: 'user 7 not found' })
    await clock.advance(SECOND_MS)
    const id = await die(store, { name: 'Error', message: 'user 12 not found' }, { queue: 'push', type: 'send_push' })

    const found = await store.deadGroups({ queue: null, limit: 10 })

    expect(found.map(({ count }) => count)).toEqual([2, 1])
    expect(found[0]).toEqual({
      fingerprint: fingerprint({ name: 'Error', message: 'user 0 not found' }),
      error: { name: 'Error', message: 'user 12 not found' },
      count: 2,
      isExact: true,
      types: ['send_email', 'send_push'],
      queues: [QUEUE, 'push'],
      firstAt: new Date(START_MS),
      lastAt: new Date(START_MS + SECOND_MS),
      newestId: id,
    })
  },

  'groups of a queue hold its jobs alone': async ({ store, expect }) => {
    await die(store, FAILURE)
    const id = await die(store, FAILURE, { queue: 'push' })
    await die(store, { name: 'Error', message: 'other' })

    const found = await store.deadGroups({ queue: 'push', limit: 10 })

    expect(found.map(({ count, newestId, queues }) => [count, newestId, queues])).toEqual([[1, id, ['push']]])
  },

  'no more groups are given than asked for': async ({ store, expect }) => {
    for (const message of ['one', 'two', 'three']) await die(store, { name: 'Error', message })
    await die(store, { name: 'Error', message: 'two' })

    const found = await store.deadGroups({ queue: null, limit: 2 })

    expect(found.map(({ error }) => error!.message)).toEqual(['two', 'three'])
  },

  'jobs that died without an error are a group of their own': async ({ store, expect }) => {
    await die(store, null)

    const [group] = await store.deadGroups({ queue: null, limit: 10 })

    expect(group).toMatchObject({ error: null, fingerprint: fingerprint(null), count: 1 })
  },

  'a requeued or discarded job leaves its group': async ({ store, expect }) => {
    const ids = [await die(store, FAILURE), await die(store, FAILURE), await die(store, FAILURE)]
    await store.deadGroups({ queue: null, limit: 10 })

    await store.requeue([ids[0]!], OPERATOR)
    await store.discard([ids[1]!], OPERATOR)

    const [group] = await store.deadGroups({ queue: null, limit: 10 })
    expect(group).toMatchObject({ count: 1, newestId: ids[2] })
  },

  'groups without end are refused': async ({ store, expect }) => {
    expect(await codeOf(store.deadGroups({ queue: null, limit: 0 }))).toBe('invalid_option')
    expect(await codeOf(store.deadGroups({ queue: null, limit: 101 }))).toBe('invalid_option')
  },
}

const standings: Facts = {
  'a job that does not exist has no standing': async ({ store, expect }) => {
    expect(await store.standing(newId())).toBe(null)
  },

  'a standing holds the job as a list shows it, and the time': async ({ store, clock, expect }) => {
    const id = await jobIn(store, 'retrying')
    await clock.advance(SECOND_MS)

    const standing = (await store.standing(id))!

    expect([standing.job]).toEqual((await store.list({ filter: { ids: [id] }, limit: 1, before: null })).jobs)
    expect(standing).toMatchObject({ queuePaused: false, workers: [], parents: [], keyHeldBy: null })
    expect([standing.nowMs, standing.ahead]).toEqual([START_MS + SECOND_MS, { count: 0, isExact: true }])
  },

  'a ready job knows how many are before it': async ({ store, clock, expect }) => {
    const [first, high, last] = await enqueueEach(store, [{}, { priority: 5 }, {}])
    await enqueueEach(store, [{ queue: 'push' }, {}, { when: { delayMs: SECOND_MS } }])
    await clock.advance(SECOND_MS)
    await store.promote(10)

    const ahead = async (id: string) => (await store.standing(id))!.ahead.count

    // The timed job goes before the others of its priority.
    expect([await ahead(high!), await ahead(first!), await ahead(last!)]).toEqual([0, 2, 3])
  },

  'a released job is counted from its new place': async ({ store, expect }) => {
    const job = await startJob(store)
    const other = await enqueueJob(store)
    await store.settle([{ ...dead(job), settlement: { state: 'ready', attempt: 0, crashes: 0 }, error: null }])

    expect((await store.standing(job.id))!.ahead).toEqual({ count: 0, isExact: true })
    expect((await store.standing(other))!.ahead).toEqual({ count: 1, isExact: true })
  },

  'a blocked job knows its parents': async ({ store, expect }) => {
    const done = await jobIn(store, 'succeeded', { type: 'extract' })
    const open = await enqueueJob(store, { type: 'load' })
    const id = await enqueueJob(store, { after: [done, open] })

    const { parents } = (await store.standing(id))!

    expect(parents).toEqual([
      { id: done, state: 'succeeded', type: 'extract', queue: QUEUE },
      { id: open, state: 'ready', type: 'load', queue: QUEUE },
    ])
  },

  'a standing tells that the queue is paused': async ({ store, expect }) => {
    const id = await enqueueJob(store)
    await store.pause(QUEUE, OPERATOR)

    expect((await store.standing(id))!.queuePaused).toBe(true)
  },

  'a standing lists the live workers of the queue and whether they know the type': async ({ store, clock, expect }) => {
    await store.beat(newBeat({ id: 'gone' }))
    await clock.advance(MINUTE_MS)
    await store.beat(newBeat({ id: 'a', types: ['send_email'] }))
    await store.beat(newBeat({ id: 'b', types: ['sweep'] }))
    await store.beat(newBeat({ id: 'c', types: null }))
    await store.beat(newBeat({ id: 'd', queues: ['push'] }))
    const id = await enqueueJob(store)

    const { workers } = (await store.standing(id))!

    expect(workers.map((worker) => [worker.id, worker.knowsType])).toEqual([
      ['a', true],
      ['b', false],
      ['c', true],
    ])
  },

  'a dead job knows who has taken its key': async ({ store, expect }) => {
    const id = await jobIn(store, 'dead', keyed('welcome'))
    const holder = await enqueueJob(store, keyed('welcome'))

    expect((await store.standing(id))!.keyHeldBy).toBe(holder)
    expect((await store.standing(holder))!.keyHeldBy).toBe(null)
    expect((await claimJob(store)).id).toBe(holder)
  },
}

export const deadGroupFacts: Facts = { ...groups, ...standings }
