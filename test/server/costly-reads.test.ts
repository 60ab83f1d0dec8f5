// Searches wait for their turn: those of one key for each other, and none for longer than it is worth an answer.

import { expect, test } from 'vitest'
import { CostlyReads } from '../../src/server/costly-reads.js'

const present = new AbortController().signal

/** A read that lasts until the test ends it. */
function held(reads: CostlyReads, who: string) {
  let end = () => {}
  const lasts = new Promise<void>((resolve) => {
    end = resolve
  })
  return { ended: reads.run(who, present, () => lasts), end }
}

test('a search that waits too long is refused with the reason, and frees its place', async () => {
  const reads = new CostlyReads(5)
  const running = [held(reads, 'a'), held(reads, 'a')]

  await expect(reads.run('a', present, async () => 'found')).rejects.toMatchObject({
    status: 429,
    message: expect.stringMatching(/waited 0.005 s for others to finish/),
  })
  for (const { end } of running) end()
  await Promise.all(running.map(({ ended }) => ended))

  expect(await reads.run('a', present, async () => 'found')).toBe('found')
})

test('two searches of one key run, its third waits, and another key does not', async () => {
  const reads = new CostlyReads()
  const [first, second] = [held(reads, 'a'), held(reads, 'a')]
  const order: string[] = []
  const third = reads.run('a', present, async () => order.push('a'))
  await reads.run('b', present, async () => order.push('b'))
  first.end()
  await third
  second.end()
  await second.ended

  expect(order).toEqual(['b', 'a'])
})
