import { expect, test } from 'vitest'
import { ClaimSize } from '../../src/worker/claim-size.js'

test('the first claim is as large as claims may be', () => {
  expect(new ClaimSize(500).size).toBe(500)
})

test('claims shrink while they take long and jobs wait, down to where the way costs more than the jobs', () => {
  const claims = new ClaimSize(500)

  const sizes = Array.from({ length: 20 }, () => {
    claims.learn({ tookMs: 14, isLate: false })
    return claims.size
  })

  expect(sizes[0]).toBe(375)
  expect(sizes.at(-1)).toBe(64)
})

test('claims that come late grow again, to the most they may be and no further', () => {
  const claims = new ClaimSize(500)
  for (let count = 0; count < 20; count++) claims.learn({ tookMs: 14, isLate: false })

  for (let count = 0; count < 20; count++) claims.learn({ tookMs: 14, isLate: true })

  expect(claims.size).toBe(500)
})

test('a size is a whole number whatever it went through', () => {
  const claims = new ClaimSize(500)

  for (let count = 0; count < 200; count++) {
    claims.learn({ tookMs: 14, isLate: count % 3 === 0 })

    expect(Number.isInteger(claims.size)).toBe(true)
  }
})

test('quick claims stay as they are', () => {
  const claims = new ClaimSize(500)
  claims.learn({ tookMs: 14, isLate: false })

  claims.learn({ tookMs: 4, isLate: false })

  expect(claims.size).toBe(375)
})

test('a most that is smaller than the fewest is kept', () => {
  const claims = new ClaimSize(10)

  claims.learn({ tookMs: 14, isLate: false })

  expect(claims.size).toBe(10)
})
