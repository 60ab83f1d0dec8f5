// Where the time of calls went: the parts of each call, and their sums.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { describe, expect, test } from 'vitest'
import { type CallSplit, SplitLog, summariseSplits } from '../../lab/experiments/split.js'
import { parseTimes, ThreadTimes } from '../../lab/experiments/thread-times.js'

describe('the parts of calls', () => {
  test('what both sides waited for a processor is not the call’s own time', () => {
    const summary = summariseSplits([[20, 3, 5, 8]])!

    expect(summary.p99).toEqual({ total: 20, own: 7, serverRun: 3, serverWait: 5, clientWait: 8, rest: 4 })
  })

  test('waits at the same time never make the own time smaller than the server’s work', () => {
    const summary = summariseSplits([[10, 4, 6, 7]])!

    expect(summary.p99).toMatchObject({ own: 4, rest: 0 })
  })

  test('without a view of the server its parts are unknown', () => {
    const summary = summariseSplits([[10, null, null, 6]])!

    expect(summary.p50).toEqual({
      total: 10,
      own: 4,
      serverRun: null,
      serverWait: null,
      clientWait: 6,
      rest: null,
    })
  })

  test('the slowest hundredth is the mean of the slowest calls alone, and adds up', () => {
    const fast = Array.from({ length: 198 }, (): CallSplit => [1, 1, 0, 0])

    const { slowest } = summariseSplits([[50, 10, 20, 10], ...fast, [30, 10, 0, 10]])!

    expect(slowest).toEqual({ total: 40, own: 20, serverRun: 10, serverWait: 10, clientWait: 10, rest: 10 })
    expect(slowest.own! + slowest.serverWait! + slowest.clientWait!).toBe(slowest.total)
  })

  test('of no calls there is no summary', () => {
    expect(summariseSplits([])).toBeNull()
  })

  test('a log that is full keeps an even part of all calls', () => {
    const log = new SplitLog()

    for (let number = 0; number < 500_000; number++) log.add([number, 0, 0, 0])

    const kept = log.take()
    expect(kept.length).toBeLessThan(200_000)
    expect(kept.slice(0, 3).map(([total]) => total)).toEqual([0, 4, 8])
    expect(kept.at(-1)![0]).toBe(499_996)
  })

  test('a log begins anew after its calls were taken', () => {
    const log = new SplitLog()
    log.add([1, 0, 0, 0])
    log.take()

    expect(log.summary()).toBeNull()
  })
})

describe('the times of a thread', () => {
  test('a line has nanoseconds of running and of waiting', () => {
    expect(parseTimes('2500000 1000000 12\n')).toEqual({ runMs: 2.5, waitMs: 1 })
    expect(parseTimes('')).toBeNull()
  })

  test('this process has run longer after it has worked', () => {
    const times = ThreadTimes.ofMain()!
    const before = times.read()!

    // Linux adds the time of a running thread at its next tick, so it works until that has come.
    while (times.read()!.runMs === before.runMs);

    expect(times.read()!.runMs).toBeGreaterThan(before.runMs)
    times.close()
  })

  test('a process that is not a PostgreSQL server’s is not taken for one', async ({ onTestFinished }) => {
    const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'])
    onTestFinished(async () => {
      child.kill('SIGKILL')
      await once(child, 'exit')
    })

    expect(ThreadTimes.ofBackend(child.pid!)).toBeNull()
  })
})
