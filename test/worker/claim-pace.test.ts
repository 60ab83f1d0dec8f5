import { describe, expect, test } from 'vitest'
import type { Store } from '../../src/core/store.js'
import { ClaimPace } from '../../src/worker/claim-pace.js'
import { openStage, type Stage, work } from './stage.js'

describe('the pace of claims', () => {
  test('nothing is waited for before the first claim', () => {
    expect(new ClaimPace().waitMs(0)).toBe(0)
  })

  test('what is waited after a claim follows how long it took', () => {
    const quick = new ClaimPace()
    const slow = new ClaimPace()

    quick.learn({ nowMs: 0, tookMs: 1, count: 5 })
    slow.learn({ nowMs: 0, tookMs: 20, count: 5 })

    expect([quick.waitMs(0), slow.waitMs(0)]).toEqual([2, 40])
  })

  test('claims that come to nothing wait longer and longer, a tenth of a second at most', () => {
    const pace = new ClaimPace()

    const waits = Array.from({ length: 8 }, () => {
      pace.learn({ nowMs: 0, tookMs: 1, count: 0 })
      return pace.waitMs(0)
    })
    pace.learn({ nowMs: 0, tookMs: 1_000, count: 0 })

    expect(waits).toEqual([4, 8, 16, 32, 64, 64, 64, 64])
    expect(pace.waitMs(0)).toBe(100)
  })

  test('claims that bring jobs wait less again', () => {
    const pace = new ClaimPace()
    for (let count = 0; count < 8; count++) pace.learn({ nowMs: 0, tookMs: 1, count: 0 })

    for (let count = 0; count < 20; count++) pace.learn({ nowMs: 0, tookMs: 1, count: 3 })

    expect(pace.waitMs(0)).toBe(2)
  })

  test('a quiet second makes it forget', () => {
    const pace = new ClaimPace()
    for (let count = 0; count < 8; count++) pace.learn({ nowMs: 0, tookMs: 1, count: 0 })

    pace.learn({ nowMs: 5_000, tookMs: 1, count: 1 })

    expect(pace.waitMs(5_000)).toBe(2)
  })
})

describe('a worker that is woken', () => {
  /** The stage's store, each of whose claims takes a while of the manual clock. */
  function slowClaims(stage: Stage, tookMs: number): Store {
    return new Proxy(stage.store, {
      get(target, method: keyof Store) {
        if (method !== 'claim') return target[method]
        return async (...values: Parameters<Store['claim']>) => {
          await new Promise<void>((resolve) => stage.ports.timers.after(tookMs, resolve))
          return target.claim(...values)
        }
      },
    })
  }

  test('for nothing again and again claims less often than it is woken', async () => {
    const stage = openStage()
    const worker = stage.worker({ handlers: [work(() => {})] }, slowClaims(stage, 5))
    await worker.start()
    await stage.clock.advance(5_000)
    const before = stage.calls('claim')

    for (let count = 0; count < 100; count++) {
      stage.store.wake(['default'])
      await stage.clock.advance(10)
    }
    const claims = stage.calls('claim') - before
    await worker.stop()

    expect(claims).toBeGreaterThan(5)
    expect(claims).toBeLessThan(25)
  })

  test('after a quiet time claims at once', async () => {
    const stage = openStage()
    const worker = stage.worker({ handlers: [work(() => {})] }, slowClaims(stage, 5))
    await worker.start()
    await stage.clock.advance(5_000)

    const id = await stage.enqueue()
    await stage.clock.advance(6)
    await worker.stop()

    expect((await stage.get(id)).state).toBe('succeeded')
  })

  test('during its wait still finds the job, a tenth of a second later at most', async () => {
    const stage = openStage()
    const worker = stage.worker({ handlers: [work(() => {})] }, slowClaims(stage, 5))
    await worker.start()
    await stage.clock.advance(5_000)
    for (let count = 0; count < 50; count++) {
      stage.store.wake(['default'])
      await stage.clock.advance(10)
    }

    const id = await stage.enqueue()
    await stage.clock.advance(111)
    await worker.stop()

    expect((await stage.get(id)).state).toBe('succeeded')
  })
})
