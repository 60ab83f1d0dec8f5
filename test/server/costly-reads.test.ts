// Searches wait for their turn: those of one key for each other, and none for longer than it is worth an answer.

import { expect, test } from 'vitest'
import { CostlyReads } from '../../src/server/costly-reads.js'

const present = new AbortController().signal

/** A look that lasts until it is told to end. */
function held(looks: CostlyReads, who: string) {
  let end = () => {}
  const lasts = new Promise<void>((resolve) => {
    end = resolve
  })
  return { ended: looks.run(who, present, () => lasts), end }
}

test('a search whose turn does not come in time is refused with the reason, and leaves its place', async () => {
  const looks = new CostlyReads(5)
  const running = [held(looks, 'a'), held(looks, 'a')]

  await expect(looks.run('a', present, async () => 'found')).rejects.toMatchObject({
    status: 429,
    message: expect.stringMatching(/searches before this one were not done after 0.005 s/),
  })
  for (const { end } of running) end()
  await Promise.all(running.map(({ ended }) => ended))

  expect(await looks.run('a', present, async () => 'found')).toBe('found')
})

test('two searches of one key run, a third waits for them, and another key for none', async () => {
  const looks = new CostlyReads()
  const [first, second] = [held(looks, 'a'), held(looks, 'a')]
  const order: string[] = []
  const third = looks.run('a', present, async () => order.push('a'))
  await looks.run('b', present, async () => order.push('b'))
  first.end()
  await third
  second.end()
  await second.ended

  expect(order).toEqual(['b', 'a'])
})
