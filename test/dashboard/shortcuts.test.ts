import { expect, test } from 'vitest'
import { press, SEQUENCE_MS } from '../../dashboard/src/keys/sequence.js'
import { isAt, PLACES } from '../../dashboard/src/shell/places.js'

const known = ['j', 'r', '?', 'g j', 'g o']

test('a single key matches immediately', () => {
  expect(press(known, null, 'j', 0)).toEqual({ match: 'j', pending: null })
})

test('the first key of two waits for the second', () => {
  const first = press(known, null, 'g', 100)

  expect(first).toEqual({ match: null, pending: { key: 'g', atMs: 100 } })
  expect(press(known, first.pending, 'j', 200).match).toBe('g j')
})

test('a second key that comes too late counts for itself', () => {
  const { pending } = press(known, null, 'g', 0)

  expect(press(known, pending, 'j', SEQUENCE_MS + 1).match).toBe('j')
})

test('a second key that completes nothing counts for itself, and an unknown one for nothing', () => {
  const { pending } = press(known, null, 'g', 0)

  expect(press(known, pending, 'r', 10).match).toBe('r')
  expect(press(known, pending, 'q', 10)).toEqual({ match: null, pending: null })
})

test('every place has a key of its own', () => {
  expect(new Set(PLACES.map(({ key }) => key)).size).toBe(PLACES.length)
})

test('an address belongs to one place', () => {
  for (const location of ['/', '/jobs', '/jobs/42', '/queues/a', '/dead', '/bulk']) {
    expect(PLACES.filter((place) => isAt(place, location))).toHaveLength(1)
  }
  expect(PLACES.filter((place) => isAt(place, '/jobsworth'))).toHaveLength(0)
})
