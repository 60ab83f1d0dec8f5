// When a worker claims because of a wake-up, when it does without wake-ups, and what it then still finds.

import { describe, expect, test } from 'vitest'
import type { Store } from '../../src/core/store.js'
import type { StoreListener } from '../../src/core/store-listener.js'
import { Hearing } from '../../src/worker/hearing.js'
import type { Worker } from '../../src/worker/worker.js'
import { openStage, type Stage, whenAborted, work } from './stage.js'

/** The stage's store as another process sees it: what the stage enqueues is not its own. Each of its claims takes a while of the manual
 *  clock, and so does LISTEN. `mutes` has what it was asked for. */
function otherProcess(stage: Stage, { claimMs = 5, listenMs = 3 } = {}) {
  const muted = new Set<StoreListener>()
  const mutes: boolean[] = []
  const wait = (ms: number) => new Promise<void>((resolve) => stage.ports.timers.after(ms, resolve))
  const store: Store = new Proxy(stage.store, {
    get(target, method: keyof Store) {
      if (method === 'claim') {
        return async (...values: Parameters<Store['claim']>) => {
          await wait(claimMs)
          return target.claim(...values)
        }
      }
      if (method === 'listen') {
        return (listener: StoreListener) =>
          target.listen({
            ready: (queue) => muted.has(listener) || listener.ready?.(queue, false),
            cancel: (id) => muted.has(listener) || listener.cancel?.(id),
          })
      }
      if (method === 'mute') {
        return async (listener: StoreListener, isMuted: boolean) => {
          mutes.push(isMuted)
          await wait(listenMs)
          if (isMuted) muted.add(listener)
          else muted.delete(listener)
        }
      }
      return target[method]
    },
  })
  return { store, mutes }
}

/** Stops a worker whose claims take time. */
async function end(stage: Stage, worker: Worker): Promise<void> {
  const stopping = worker.stop()
  await stage.clock.advance(1_000)
  await stopping
}

/** Enqueues this many jobs every ten milliseconds for a while. */
async function stream(stage: Stage, { jobs, ms }: { readonly jobs: number; readonly ms: number }): Promise<void> {
  for (let passedMs = 0; passedMs < ms; passedMs += 10) {
    for (let count = 0; count < jobs; count++) await stage.enqueue()
    await stage.clock.advance(10)
  }
}

describe('a worker that is woken', () => {
  test('for nothing again and again claims less often than it is woken', async () => {
    const stage = openStage()
    const worker = stage.worker({ handlers: [work(() => {})] }, otherProcess(stage).store)
    await worker.start()
    await stage.clock.advance(5_000)
    const before = stage.calls('claim')

    for (let count = 0; count < 100; count++) {
      stage.store.wake(['default'])
      await stage.clock.advance(10)
    }
    const claims = stage.calls('claim') - before
    await end(stage, worker)

    expect(claims).toBeGreaterThan(5)
    expect(claims).toBeLessThan(25)
  })

  test('after a quiet time claims immediately', async () => {
    const stage = openStage()
    const worker = stage.worker({ handlers: [work(() => {})] }, otherProcess(stage).store)
    await worker.start()
    await stage.clock.advance(5_000)

    const id = await stage.enqueue()
    await stage.clock.advance(6)
    await end(stage, worker)

    expect((await stage.get(id)).state).toBe('succeeded')
  })

  test('during its wait still finds the job, a tenth of a second later at most', async () => {
    const stage = openStage()
    const worker = stage.worker({ handlers: [work(() => {})] }, otherProcess(stage).store)
    await worker.start()
    await stage.clock.advance(5_000)
    for (let count = 0; count < 50; count++) {
      stage.store.wake(['default'])
      await stage.clock.advance(10)
    }

    const id = await stage.enqueue()
    await stage.clock.advance(111)
    await end(stage, worker)

    expect((await stage.get(id)).state).toBe('succeeded')
  })

  test('by an enqueue of its own process never waits for its pace', async () => {
    const stage = openStage()
    const worker = stage.worker({ handlers: [work(() => {})] })
    await worker.start()
    await stage.clock.advance(5_000)
    for (let count = 0; count < 50; count++) {
      stage.store.wake(['default'])
      await stage.clock.advance(10)
    }

    const id = await stage.enqueue()
    await stage.clock.advance(0)
    await end(stage, worker)

    expect((await stage.get(id)).state).toBe('succeeded')
  })

  test('by many jobs claims less often while they are fresh, and more often once they have waited for longer', async () => {
    const claims = await Promise.all(
      [0, 50].map(async (delayMs) => {
        const stage = openStage()
        const { store } = otherProcess(stage, { claimMs: 1 })
        const aged: Store = new Proxy(store, {
          get(target, method: keyof Store) {
            if (method !== 'claim') return target[method]
            return async (...values: Parameters<Store['claim']>) => {
              const claim = await target.claim(...values)
              return { ...claim, waitedMs: claim.waitedMs === null ? null : claim.waitedMs + delayMs }
            }
          },
        })
        const worker = stage.worker({ handlers: [work(() => {})], concurrency: 100 }, aged)
        await worker.start()
        await stream(stage, { jobs: 2, ms: 1_500 })
        const before = stage.calls('claim')
        await stream(stage, { jobs: 2, ms: 1_000 })
        const count = stage.calls('claim') - before
        await end(stage, worker)
        return count
      }),
    )

    const [fresh, stale] = claims
    expect(fresh).toBeLessThan(80)
    expect(stale).toBeGreaterThan(100)
  })
})

describe('a busy worker', () => {
  test('does without wake-ups and goes on claiming', async () => {
    const stage = openStage()
    const { store, mutes } = otherProcess(stage)
    const worker = stage.worker({ handlers: [work(() => {})], concurrency: 100 }, store)
    await worker.start()

    await stream(stage, { jobs: 2, ms: 3_000 })
    await stage.clock.advance(100)
    const { ready } = await stage.store.stats('default')
    await end(stage, worker)

    expect(mutes[0]).toBe(true)
    expect(mutes.length).toBeLessThan(3)
    expect(ready).toBe(0)
    expect(stage.heard('job.settled')).toHaveLength(600)
  })

  test('with 40 jobs a second keeps listening, and starts each within ten milliseconds', async () => {
    const stage = openStage()
    const { store, mutes } = otherProcess(stage, { claimMs: 1 })
    const startedMs: number[] = []
    const handler = work((_payload, ctx) => {
      startedMs.push(stage.clock.now() - ctx.createdAt.getTime())
    })
    const worker = stage.worker({ handlers: [handler] }, store)
    await worker.start()

    for (let count = 0; count < 80; count++) {
      await stage.enqueue()
      await stage.clock.advance(25)
    }
    await end(stage, worker)

    expect(mutes).toEqual([])
    expect(startedMs).toHaveLength(80)
    expect(Math.max(...startedMs)).toBeLessThanOrEqual(10)
  })

  test('listens again after four claims that found no jobs, within half a second', async () => {
    const stage = openStage()
    const { store, mutes } = otherProcess(stage)
    const worker = stage.worker({ handlers: [work(() => {})], concurrency: 100 }, store)
    await worker.start()
    await stream(stage, { jobs: 5, ms: 2_000 })

    await stage.clock.advance(500)
    const id = await stage.enqueue()
    await stage.clock.advance(100)
    await end(stage, worker)

    expect(mutes).toEqual([true, false])
    expect((await stage.get(id)).state).toBe('succeeded')
  })

  test('claims once more when it listens again, for jobs whose wake-ups it could not receive', async () => {
    const stage = openStage()
    const { store, mutes } = otherProcess(stage, { listenMs: 50 })
    const worker = stage.worker({ handlers: [work(() => {})], concurrency: 100, pollMin: '10s', pollMax: '10s' }, store)
    await worker.start()
    await stream(stage, { jobs: 5, ms: 2_000 })
    while (mutes.length < 2) await stage.clock.advance(1)

    const id = await stage.enqueue()
    await stage.clock.advance(250)
    await end(stage, worker)

    expect((await stage.get(id)).state).toBe('succeeded')
  })

  test('learns of a cancel within a second although no wake-up reaches it', async () => {
    const stage = openStage()
    const { store, mutes } = otherProcess(stage)
    let abortedMs: number | null = null
    let isFirst = true
    const handler = work(async (_payload, ctx) => {
      if (!isFirst) return
      isFirst = false
      await whenAborted(ctx.signal)
      abortedMs = stage.clock.monotonic()
      throw ctx.signal.reason
    })
    const worker = stage.worker({ handlers: [handler], concurrency: 100 }, store)
    const id = await stage.enqueue()
    await worker.start()
    await stream(stage, { jobs: 5, ms: 2_000 })

    const askedMs = stage.clock.monotonic()
    await stage.store.cancel([id], 'test')
    await stream(stage, { jobs: 5, ms: 1_000 })
    await end(stage, worker)

    expect(mutes).toEqual([true])
    expect(abortedMs! - askedMs).toBeLessThanOrEqual(1_000)
  })
})

describe('hearing', () => {
  function openHearing() {
    const mutes: boolean[] = []
    const hearing = new Hearing(async (isMuted) => void mutes.push(isMuted))
    return { hearing, mutes }
  }

  test('a single burst does not end it', () => {
    const { hearing, mutes } = openHearing()

    hearing.learn(0, 0)
    hearing.learn(1_000, 499)
    hearing.learn(0, 20_000)

    expect(mutes).toEqual([])
  })

  test('fifty jobs in half a second end it, a few less do not', () => {
    const [few, many] = [openHearing(), openHearing()]

    for (const [each, count] of [
      [few, 49],
      [many, 50],
    ] as const) {
      each.hearing.learn(0, 0)
      each.hearing.learn(count, 250)
      each.hearing.learn(1, 500)
    }

    expect([few.mutes, many.mutes]).toEqual([[], [true]])
  })

  test('it returns with the fourth empty claim in a row', () => {
    const { hearing, mutes } = openHearing()
    hearing.learn(0, 0)
    hearing.learn(100, 500)
    hearing.learn(1, 1_000)

    const looks = [0, 0, 0, 1, 0, 0, 0, 0, 0].map((count, index) => hearing.learn(count, 1_001 + index) !== null)

    expect(looks).toEqual([false, false, false, false, false, false, false, true, false])
    expect(mutes).toEqual([true, false])
  })
})
