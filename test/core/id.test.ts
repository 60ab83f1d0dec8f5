import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { isId } from '../../src/core/check.js'
import { idMaker, idTimeMs } from '../../src/core/id.js'
import { seededRandom } from '../../src/testing/seeded-random.js'

const START = Date.UTC(2026, 0, 15, 12)

describe('ids', () => {
  test('an id is a UUID of version 7 and tells its time', () => {
    const id = idMaker(() => START + 0.7, seededRandom())()

    expect(isId(id)).toBe(true)
    expect(id[14]).toBe('7')
    expect('89ab').toContain(id[19])
    expect(idTimeMs(id)).toBe(START)
  })

  test('ids of one millisecond grow, and borrow from the next when there are too many', () => {
    const make = idMaker(() => START, seededRandom())

    const ids = Array.from({ length: 10_000 }, make)

    expect(ids).toEqual([...ids].sort())
    expect(new Set(ids).size).toBe(10_000)
    expect(idTimeMs(ids[0]!)).toBe(START)
    expect(idTimeMs(ids.at(-1)!)).toBeLessThanOrEqual(START + 3)
  })

  test('ids go on growing when the clock goes back', () => {
    let now = START
    const make = idMaker(() => now, seededRandom())

    const before = make()
    now -= 60_000
    const after = make()

    expect(after > before).toBe(true)
    expect(idTimeMs(after)).toBe(START)
  })

  test('a time before 1970 counts as 1970', () => {
    expect(idTimeMs(idMaker(() => -5, seededRandom())())).toBe(0)
  })

  test('ids are unique, sorted and of their time, however time goes on', () => {
    fc.assert(
      fc.property(fc.integer(), fc.array(fc.nat(5), { minLength: 1, maxLength: 600 }), (seed, steps) => {
        let now = START
        const make = idMaker(() => now, seededRandom(seed))

        const ids = steps.map((stepMs) => {
          now += stepMs
          return { id: make(), now }
        })

        const texts = ids.map(({ id }) => id)
        expect(new Set(texts).size).toBe(texts.length)
        expect(texts).toEqual([...texts].sort())
        for (const { id, now: madeAt } of ids) expect(idTimeMs(id)).toBe(madeAt)
      }),
    )
  })

  test('two makers of the same millisecond do not meet', () => {
    const make = [1, 2].map((seed) => idMaker(() => START, seededRandom(seed)))

    const ids = make.flatMap((next) => Array.from({ length: 2_000 }, next))

    expect(new Set(ids).size).toBe(4_000)
  })
})
