import { describe, expect, test } from 'vitest'
import type { BulkRequest } from '../../src/client/bulk.js'
import { finish, openClient } from './support.js'

async function openDead(count: number) {
  const opened = await openClient()
  await opened.client.enqueueMany('a', Array(count).fill(null))
  for (let n = 0; n < count; n++) await finish(opened.store, 'default', { state: 'dead', error: new Error('boom') })
  return opened
}

describe('bulk', () => {
  test('says first what it would do', async () => {
    const { client } = await openDead(3)
    await client.enqueue('a', null)

    const preview = await client.bulk({ action: 'requeue', filter: 'type:a', dryRun: true })

    expect(preview).toEqual({ matches: 4, can: 3, isExact: true })
    expect(await client.bulks()).toEqual([])
  })

  test('writes the action down, narrowed to jobs it can be done to', async () => {
    const { client, store } = await openDead(3)

    const started = await client.bulk({ action: 'requeue', filter: 'type:a', perSecond: 100, limit: 10 }, { by: 'ann' })

    expect(started).toMatchObject({
      ...{ action: 'requeue', filter: { types: ['a'], states: ['dead'] }, by: 'ann', perSecond: 100, limit: 10 },
      ...{ state: 'waiting', matched: 0, expected: { count: 3, isExact: true } },
    })
    expect(await client.getBulk(started.id)).toEqual(started)
    expect(await client.bulks({ limit: 1 })).toEqual([started])
    expect((await store.stats(null)).dead).toBe(3)
  })

  test('leaves out states the filter leaves out', async () => {
    const { client } = await openClient()
    await client.enqueue('a', null)
    await client.enqueue('a', null, { delay: '1h' })

    const { filter, limit } = await client.bulk({ action: 'cancel', filter: '-state:scheduled' })

    expect(filter.states).toEqual(['blocked', 'ready', 'running', 'retrying'])
    expect(limit).toBe(1_000_000)
  })

  test.each(['', ' ', {}, 'queue:*', 'type:** queue:*'])(
    'with the filter %j, which leaves no job out, it is done only when every job is meant',
    async (filter) => {
      const { client } = await openDead(2)
      const ask = (said: object) => client.bulk({ action: 'discard', filter, ...said } as BulkRequest)

      await expect(ask({})).rejects.toThrow(/leaves no job out: give all: true/)
      await expect(ask({ all: false })).rejects.toThrow(/leaves no job out/)
      expect(await client.bulks()).toEqual([])
      expect(await ask({ dryRun: true })).toMatchObject({ can: 2 })
      expect(await ask({ all: true })).toMatchObject({ state: 'waiting' })
      expect(await ask({ expected: 2 })).toMatchObject({ state: 'waiting' })
    },
  )

  test('does nothing when more jobs match than were expected, and never touches more', async () => {
    const { client } = await openDead(3)

    const refusal = await client.bulk({ action: 'discard', filter: 'type:a', expected: 2 }).catch((error) => error)

    expect([refusal.code, refusal.details]).toEqual(['wrong_state', { expected: 2, matches: 3 }])
    expect(await client.bulks()).toEqual([])
    expect((await client.bulk({ action: 'discard', filter: 'type:a', expected: 3 })).limit).toBe(3)
    expect((await client.bulk({ action: 'discard', filter: 'type:a', expected: 4, limit: 1 })).limit).toBe(1)
  })

  test('can be ended', async () => {
    const { client } = await openDead(1)
    const { id } = await client.bulk({ action: 'discard', filter: 'type:a' })

    expect(await client.cancelBulk(id, { by: 'ann' })).toMatchObject({ id, state: 'cancelled' })
    expect(await client.getBulk(id)).toMatchObject({ state: 'cancelled' })
  })

  test('is not there when nobody asked for it', async () => {
    const { client } = await openClient()

    expect(await client.getBulk('019ca945-0a09-7878-92ce-4430c91506ae')).toBe(null)
  })
})
