// How far down a look must reach for what was committed since the last one.

import { describe, expect, test } from 'vitest'
import { LateCommits } from '../../src/stores/postgres/late-commits.js'

const at = (place: bigint) => new Map([['q', place]])

describe('where late commits may lie', () => {
  test('is anywhere until there are two marks', () => {
    const late = new LateCommits<string>()

    expect(late.step('10:10:', at(1n))).toBeNull()
    expect(late.step('20:20:', at(2n))).toBeNull()
  })

  test('is above the mark before the last while transactions are short', () => {
    const late = new LateCommits<string>()
    for (let n = 1n; n <= 5n; n++) late.step(`${n * 10n}:${n * 10n}:`, at(n))

    expect(late.step('60:60:', at(6n))?.get('q')).toBe(4n)
  })

  test('reaches back to before a long transaction when it has ended, and not before', () => {
    const late = new LateCommits<string>()
    for (let n = 1n; n <= 3n; n++) late.step(`${n * 10n}:${n * 10n}:`, at(n))
    // 35 begins after the third mark.
    for (let n = 4n; n <= 300n; n++) {
      const from = late.step(`35:${n * 10n}:35`, at(n))
      expect(from?.get('q')).toBe(n - 2n)
    }

    const from = late.step('3010:3010:', at(301n))

    expect(from?.get('q')).toBe(2n)
    expect(late.step('3020:3020:', at(302n))?.get('q')).toBe(300n)
  })

  test('is anywhere when the numbers go back, as on a server that lost commits', () => {
    const late = new LateCommits<string>()
    for (let n = 1n; n <= 5n; n++) late.step(`${n * 10n}:${n * 10n}:`, at(n))

    expect(late.step('45:45:', at(6n))).toBeNull()
  })
})
