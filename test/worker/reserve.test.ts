// Jobs that go straight to an idle worker of the process that enqueues them.

import { afterEach, describe, expect, test } from 'vitest'
import { HoldfastError } from '../../src/core/errors.js'
import type { HoldfastEvent } from '../../src/core/events.js'
import type { Store } from '../../src/core/store.js'
import { type Holdfast, openHoldfast } from '../../src/holdfast.js'
import { defineJob } from '../../src/index.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import { manualClock } from '../../src/testing/manual-clock.js'
import { seededRandom } from '../../src/testing/seeded-random.js'

const work = defineJob<number>('work')
const opened: Holdfast[] = []

afterEach(async () => {
  await Promise.all(opened.splice(0).map((holdfast) => holdfast.close()))
})

/** A queue on a memory store, and a promise for the next event of a name. */
async function open(between: (store: Store) => Store = (store) => store) {
  const holdfast = await openHoldfast(between(memoryStore()))
  opened.push(holdfast)
  const next = (name: HoldfastEvent['name'], isIt: (event: HoldfastEvent) => boolean = () => true) =>
    new Promise<HoldfastEvent>((resolve) => {
      const off = holdfast.on((event) => {
        if (event.name !== name || !isIt(event)) return
        off()
        resolve(event)
      })
    })
  return { holdfast, next }
}

describe('an idle worker', () => {
  test('gets a job of its own process with the enqueue, without a claim', async () => {
    const claimed: number[] = []
    const { holdfast, next } = await open((store) => ({
      ...store,
      async claim(request) {
        const answer = await store.claim(request)
        claimed.push(answer.jobs.length)
        return answer
      },
    }))
    const worker = holdfast.worker({ handlers: [work.handle((n) => n * 2)], pollMin: '10s', pollMax: '10s' })
    const looked = next('job.claimed')
    await worker.start()
    await looked

    const { id, state } = await holdfast.enqueue(work, 21)

    expect(state).toBe('running')
    expect(await holdfast.wait(id, { timeout: '5s' })).toBe(42)
    expect(claimed.every((count) => count === 0)).toBe(true)
  })

  test('goes on looking after an enqueue that kept its only slot and failed', async () => {
    const clock = manualClock()
    const memory = memoryStore({ clock })
    let fail: (error: Error) => void = () => {}
    let isFirst = true
    // Nothing wakes it, and the first enqueue is answered only when the test fails it.
    const store: Store = {
      ...memory,
      listen: () => () => {},
      enqueue(jobs, options) {
        if (!isFirst) return memory.enqueue(jobs, options)
        isFirst = false
        return new Promise((_resolve, reject) => {
          fail = reject
        })
      },
    }
    const holdfast = await openHoldfast(store, { ports: { clock, timers: clock.timers, random: seededRandom() } })
    let ran = 0
    const worker = holdfast.worker({ handlers: [work.handle(() => void ran++)], concurrency: 1, prefetch: 0 })
    await worker.start()
    await clock.advance(1_000)

    const enqueued = holdfast.enqueue(work, 1)
    await clock.advance(20_000)
    fail(new HoldfastError('store_unavailable', 'the answer was lost', { retryable: true }))
    await clock.advance(20_000)
    await enqueued

    expect(ran).toBe(1)
    const closing = holdfast.close()
    await clock.advance(10_000)
    await closing
  })

  test('gets no job of a type it does not know', async () => {
    const { holdfast, next } = await open()
    const worker = holdfast.worker({ handlers: [work.handle(() => {})], queues: ['default'] })
    const looked = next('job.claimed')
    await worker.start()
    await looked

    expect(await holdfast.enqueue('other', 1)).toMatchObject({ state: 'ready' })
  })

  test('gets no job of a queue it does not serve', async () => {
    const { holdfast, next } = await open()
    const worker = holdfast.worker({ handlers: [work.handle(() => {})], queues: ['default'] })
    const looked = next('job.claimed')
    await worker.start()
    await looked

    expect(await holdfast.enqueue(work, 1, { queue: 'elsewhere' })).toMatchObject({ state: 'ready' })
  })

  test('runs jobs in the order they were enqueued, whether they waited in the queue or not', async () => {
    const { holdfast } = await open()
    const ran: number[] = []
    let tell: () => void = () => {}
    const all = new Promise<void>((resolve) => {
      tell = resolve
    })
    const handler = work.handle(async (n) => {
      ran.push(n)
      await new Promise((resolve) => setImmediate(resolve))
      if (ran.length === 200) tell()
    })
    await holdfast.worker({ handlers: [handler], concurrency: 1 }).start()

    for (let n = 0; n < 200; n++) await holdfast.enqueue(work, n)
    await all

    expect(ran).toEqual(Array.from({ length: 200 }, (_, n) => n))
  })

  test('gets nothing with the enqueue while a claim is under way: others may wait before it', async () => {
    let answer: () => void = () => {}
    const mayAnswer = new Promise<void>((resolve) => {
      answer = resolve
    })
    const { holdfast } = await open((store) => ({
      ...store,
      async claim(request) {
        await mayAnswer
        return store.claim(request)
      },
    }))
    await holdfast.worker({ handlers: [work.handle(() => {})] }).start()
    await new Promise((resolve) => setImmediate(resolve))

    const { state } = await holdfast.enqueue(work, 1)
    answer()

    expect(state).toBe('ready')
  })

  test('takes no more than it has idle slots', async () => {
    const { holdfast, next } = await open()
    let end: () => void = () => {}
    const ended = new Promise<void>((resolve) => {
      end = resolve
    })
    const worker = holdfast.worker({ handlers: [work.handle(() => ended)], concurrency: 2, prefetch: 0 })
    const looked = next('job.claimed')
    await worker.start()
    await looked

    const states = (await Promise.all([1, 2, 3, 4].map((n) => holdfast.enqueue(work, n)))).map(({ state }) => state)
    end()

    expect(states).toEqual(['running', 'running', 'ready', 'ready'])
  })
})

describe('a worker that stops', () => {
  test('waits for an enqueue that claims for it, and gives the job back', async () => {
    let sent: () => void = () => {}
    const isSent = new Promise<void>((resolve) => {
      sent = resolve
    })
    let answer: () => void = () => {}
    const mayAnswer = new Promise<void>((resolve) => {
      answer = resolve
    })
    const { holdfast, next } = await open((store) => ({
      ...store,
      async enqueue(jobs, options) {
        const answers = await store.enqueue(jobs, options)
        sent()
        await mayAnswer
        return answers
      },
    }))
    const ran: number[] = []
    const worker = holdfast.worker({ handlers: [work.handle((n) => ran.push(n))] })
    const looked = next('job.claimed')
    await worker.start()
    await looked

    const enqueued = holdfast.enqueue(work, 1)
    await isSent
    const stopped = worker.stop()
    answer()
    const { id } = await enqueued
    await stopped

    expect(ran).toEqual([])
    expect(await holdfast.get(id)).toMatchObject({ state: 'ready', attempt: 0 })
  })
})
