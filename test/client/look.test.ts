import { describe, expect, test } from 'vitest'
import type { QueueTally } from '../../src/core/operating.js'
import { failure, finish, openClient } from './support.js'

describe('list', () => {
  test('takes a filter in text', async () => {
    const { client, store } = await openClient()
    await client.enqueue('a', { user: 7 }, { queue: 'mail_eu' })
    const { id } = await client.enqueue('a', { user: 8 }, { queue: 'mail_eu' })
    await client.enqueue('b', { user: 8 }, { queue: 'mail_eu' })
    await finish(store, 'mail_eu', { state: 'succeeded' })

    const page = await client.list({ filter: 'state:ready queue:mail_* payload.user:8', type: 'a' })

    expect(page.jobs.map((job) => job.id)).toEqual([id])
    expect(page).toMatchObject({ cursor: null, searched: 3, searchedTo: null })
  })

  test('takes a structured filter beside a tag', async () => {
    const { client } = await openClient()
    await client.enqueue('a', null, { tags: ['eu'] })
    const { id } = await client.enqueue('a', null, { tags: ['eu', 'vip'] })

    const { jobs } = await client.list({ filter: { tags: [['eu', 'us']] }, tag: 'vip' })

    expect(jobs.map((job) => job.id)).toEqual([id])
  })
})

describe('get', () => {
  test.each(['nope', '', 'f'.repeat(5_000), '0199A8F2-7C31-7A4E-9D20-5B1F6C3E8A74'])(
    'a text that is no job’s id gives null: %#',
    async (id) => {
      const { client } = await openClient()

      expect(await client.get(id)).toBeNull()
    },
  )
})

describe('count', () => {
  test('counts what a list would show', async () => {
    const { client } = await openClient()
    await client.enqueueMany('a', Array(5).fill(null))
    await client.enqueue('b', null)

    expect(await client.count()).toEqual({ count: 6, isExact: true })
    expect(await client.count({ type: 'a', max: 3 })).toEqual({ count: 3, isExact: false })
    expect(await client.count({ filter: '-type:a' })).toEqual({ count: 1, isExact: true })
  })
})

describe('explain', () => {
  test('says in words why a job waits', async () => {
    const { client } = await openClient()
    const { id } = await client.enqueue('a', null)
    await client.pause('default')

    const { summary, reasons, next } = await client.explain(id)

    expect(reasons.map(({ code }) => code)).toEqual(['queue_paused', 'no_worker'])
    expect(summary).toBe(
      'This job is ready: queue "default" is paused: it takes jobs and gives none; no live worker serves queue "default".',
    )
    expect(next).toEqual(['resume queue "default"', 'start a worker for queue "default"'])
  })
})

const TALLY: QueueTally = {
  ...{
    queue: 'default',
    enqueued: 6,
    claimed: 0,
    succeeded: 3,
    failed: 0,
    retried: 0,
    dead: 0,
    cancelled: 0,
    rescued: 0,
  },
  ...{ waitMsTotal: 0, runMsTotal: 0 },
}

describe('overview and series', () => {
  test('show what is and what was', async () => {
    const { client, store, clock } = await openClient()
    await client.enqueue('a', null)
    await store.tally([TALLY])
    await clock.advance(10_000)

    const { queues } = await client.overview()
    const points = await client.series({ since: '1m', queue: 'default' })

    expect(queues).toMatchObject([{ name: 'default', ready: 1, rates: { enqueued: 0.1, succeeded: 0.05 } }])
    expect(points.map(({ enqueued }) => enqueued)).toEqual([0, 0, 0, 0, 0, 6, 0])
  })

  test.each([
    ['1h', 361],
    ['6h', 361],
    ['1d', 289],
    ['3d', 289],
  ] as const)('a series of %s has %i points', async (since, count) => {
    const { client } = await openClient()

    expect(await client.series({ since })).toHaveLength(count)
  })
})

describe('deadGroups', () => {
  test('groups dead jobs by what killed them', async () => {
    const { client, store } = await openClient()
    await client.enqueueMany('a', [1, 2])
    await finish(store, 'default', { state: 'dead', error: new Error('user 1 is gone') })
    await finish(store, 'default', { state: 'dead', error: new Error('user 2 is gone') })

    const groups = await client.deadGroups()

    expect(groups).toMatchObject([{ count: 2, error: { message: 'user 2 is gone' } }])
    expect((await client.list({ filter: `fingerprint:${groups[0]!.fingerprint}` })).jobs).toHaveLength(2)
  })
})

describe('audit', () => {
  test('tells who did what, also what was recorded by hand', async () => {
    const { client } = await openClient()
    const { id } = await client.enqueue('a', null)
    await client.cancel(id, { by: 'ann' })
    await client.record({ action: 'reveal payload', job: id, details: { why: 'ticket 7' } }, { by: 'bob' })
    await client.record({ action: 'sign in' })

    const all = await client.audit()
    const ofJob = await client.audit({ job: id, limit: 1 })

    expect(all.entries.map(({ actor, action }) => [actor, action])).toEqual([
      ['api', 'sign in'],
      ['bob', 'reveal payload'],
      ['ann', 'cancel'],
    ])
    expect(ofJob).toMatchObject({ entries: [{ details: { why: 'ticket 7' } }], next: 2 })
  })

  test('knows a schedule that was run by hand', async () => {
    const { client } = await openClient()
    await client.schedule('daily', { cron: '0 0 * * *', job: 'report' })

    const { id } = await client.runSchedule('daily', { by: 'ann' })

    expect((await client.audit({ limit: 1 })).entries).toMatchObject([
      { actor: 'ann', action: 'run schedule', job: id, target: 'daily' },
    ])
  })
})

describe('health', () => {
  test('says what the store is and how far its clock is away', async () => {
    const { client } = await openClient()

    expect(await client.health()).toMatchObject({ kind: 'memory', isDurable: false, clockOffsetMs: 0, roundTripMs: 0 })
  })
})

test('requeue takes a filter in text', async () => {
  const { client, store } = await openClient()
  await client.enqueueMany('a', [1, 2])
  await finish(store, 'default', { state: 'dead', error: new Error('timed out') })
  await finish(store, 'default', { state: 'dead', error: new Error('refused') })

  expect(await client.requeue({ filter: 'error:timed' })).toMatchObject({ requeued: 1, more: false })
  expect(await client.requeue({ filter: 'state:dead' })).toMatchObject({ requeued: 1 })
})

test('a closed client looks no more', async () => {
  const { client } = await openClient()
  await client.close()

  for (const call of [() => client.count(), () => client.overview(), () => client.keys(), () => client.health()]) {
    expect((await failure(call())).code).toBe('closed')
  }
})
