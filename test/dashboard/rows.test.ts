import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { QueueOverview } from '../../dashboard/src/api/types.js'
import { totalsOf } from '../../dashboard/src/totals.js'
import { appendRows, idsBetween, mergeRows } from '../../dashboard/src/views/jobs/merge-rows.js'
import { chooseQueues, findQueues } from '../../dashboard/src/views/queues/choose-queues.js'

const rows = (...ids: string[]) => ids.map((id) => ({ id, state: 'ready' }))

describe('a refreshed list', () => {
  test('changes rows in place and counts the new ones without showing them', () => {
    const shown = rows('c', 'b', 'a')
    const fresh = [{ id: 'd', state: 'ready' }, { id: 'c', state: 'running' }, ...rows('b', 'a')]

    const merged = mergeRows(shown, fresh, true)

    expect(merged.rows.map(({ id, state }) => `${id} ${state}`)).toEqual(['c running', 'b ready', 'a ready'])
    expect(merged.newCount).toBe(1)
    expect(merged.gone.size).toBe(0)
  })

  test('a row that is no longer there keeps its place and is marked', () => {
    const merged = mergeRows(rows('c', 'b', 'a'), rows('c', 'a'), true)

    expect(merged.rows.map(({ id }) => id)).toEqual(['c', 'b', 'a'])
    expect([...merged.gone]).toEqual(['b'])
  })

  test('rows older than an incomplete page are not marked as gone', () => {
    const merged = mergeRows(rows('d', 'c', 'b', 'a'), rows('d', 'c'), false)

    expect(merged.gone.size).toBe(0)
  })

  test('rows never move, whatever the refreshed list holds', () => {
    const ids = fc.uniqueArray(fc.integer({ min: 0, max: 50 }).map(String), { maxLength: 20 })
    const newestFirst = ids.map((list) => rows(...list.sort().reverse()))
    fc.assert(
      fc.property(newestFirst, newestFirst, fc.boolean(), (shown, fresh, isWhole) => {
        expect(mergeRows(shown, fresh, isWhole).rows.map(({ id }) => id)).toEqual(shown.map(({ id }) => id))
      }),
    )
  })

  test('older rows are added once, up to the limit', () => {
    expect(appendRows(rows('c', 'b'), rows('b', 'a'), 10).map(({ id }) => id)).toEqual(['c', 'b', 'a'])
    expect(appendRows(rows('c', 'b'), rows('a'), 2)).toHaveLength(2)
  })

  test('a range is selected in either direction', () => {
    expect(idsBetween(rows('d', 'c', 'b', 'a'), 'c', 'a')).toEqual(['c', 'b', 'a'])
    expect(idsBetween(rows('d', 'c', 'b', 'a'), 'a', 'c')).toEqual(['c', 'b', 'a'])
    expect(idsBetween(rows('b', 'a'), 'gone', 'a')).toEqual(['a'])
  })
})

function queue(name: string, ready: number, oldestAgeS: number = 0): QueueOverview {
  const counts = { blocked: 0, scheduled: 0, ready, running: 1, retrying: 0, dead: 0 }
  const rates = { enqueued: 2, succeeded: 1, failed: 0, dead: 0 }
  return { name, paused: false, settings: { limits: {} }, ...counts, oldestAgeS, workers: 1, slots: 4, rates }
}

describe('queues', () => {
  test('the fullest queues are shown in the order of their names', () => {
    const chosen = chooseQueues([queue('c', 5), queue('b', 0), queue('a', 9)], 2)

    expect(chosen.map(({ name }) => name)).toEqual(['a', 'c'])
  })

  test('queues are found by any part of their name', () => {
    expect(findQueues([queue('Mail_out', 0), queue('images', 0)], ' mail ', 10).map(({ name }) => name)).toEqual([
      'Mail_out',
    ])
    expect(findQueues([queue('a', 0), queue('b', 0)], '', 1)).toHaveLength(1)
  })

  test('totals are sums, and the age is the highest with its queue', () => {
    const totals = totalsOf([queue('a', 3, 10), queue('b', 4, 60)])

    expect(totals).toMatchObject({ ready: 7, running: 2, oldestAgeS: 60, oldestQueue: 'b' })
    expect(totals.rates).toEqual({ enqueued: 4, succeeded: 2, failed: 0, dead: 0 })
    expect(totalsOf([]).oldestQueue).toBeNull()
  })
})
