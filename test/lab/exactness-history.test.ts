// The checks behind the experiment on exactness find what they are for.

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { busiestMoment, fullestBucket, readSpans } from '../../lab/experiments/exactness-history.js'

const span = (fromMs: number, toMs: number) => ({ type: 'a', fromMs, toMs })

test('the busiest moment counts runs that overlap, and not those that follow each other in one millisecond', () => {
  expect(busiestMoment([span(0, 10), span(5, 15), span(9, 12)])).toBe(3)
  expect(busiestMoment([span(0, 10), span(10, 20), span(20, 30)])).toBe(1)
})

test('a run whose end is not known counts for nothing', () => {
  expect(busiestMoment([span(0, 10), span(5, 5)])).toBe(1)
})

test('the fullest bucket is the burst while a rate is kept, whatever the window', () => {
  const kept = [0, 0, 0, 10, 20, 40, 40]
  const passed = [0, 0, 0, 10, 15]

  expect(fullestBucket(kept, 0.1)).toBe(3)
  expect(fullestBucket(passed, 0.1)).toBe(3.5)
})

test('records of killed processes, and of lost leases, are read as runs without an end', async ({ onTestFinished }) => {
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-spans-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const lines = [
    'began one 1 1 limit-2 100.000 7',
    'ended one 1 1 done 130.000 7',
    'began two 2 1 limit-2 110.000 7',
    'ended two 2 1 done 150.000 7',
    'settled two 2 0 lost 151.000 7',
    'began three 3 1 limit-5 120.000 7',
    'ended three 3 1 do',
  ]
  await writeFile(join(folder, 'runs-0'), lines.join('\n'))

  expect(readSpans([join(folder, 'runs-0')])).toEqual([
    { type: 'limit-2', fromMs: 100, toMs: 130 },
    { type: 'limit-2', fromMs: 110, toMs: 110 },
    { type: 'limit-5', fromMs: 120, toMs: 120 },
  ])
})
