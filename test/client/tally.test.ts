import { describe, expect, test } from 'vitest'
import { defineJob } from '../../src/client/define-job.js'
import { Tally } from '../../src/client/tally.js'
import { DropJob } from '../../src/core/definition.js'
import { openHoldfast } from '../../src/holdfast.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import { manualClock } from '../../src/testing/manual-clock.js'
import { openStage } from '../worker/stage.js'
import { testPorts } from './support.js'

function openTally() {
  const stage = openStage()
  const tally = new Tally({ store: stage.store, ports: stage.ports, emit: (event) => stage.events.push(event) })
  const sinceMs = stage.clock.now()
  const read = async () => (await stage.store.series({ queue: 'q', sinceMs, stepMs: 60_000 }))[0]!
  return { ...stage, tally, read }
}

const ENDED = { queue: 'q', error: null, ranMs: 20 }

describe('a tally', () => {
  test('is sent every few seconds while something happens, in one call', async () => {
    const { tally, clock, calls, read } = openTally()
    tally.enqueued('q', 2)
    tally.enqueued('other', 1)
    tally.enqueued('q', 3)
    await clock.advance(4_999)
    const before = calls('tally')
    await clock.advance(1)

    expect([before, calls('tally')]).toEqual([0, 1])
    expect((await read()).enqueued).toBe(5)
    await clock.advance(60_000)
    expect(calls('tally')).toBe(1)
  })

  test('counts how attempts ended', async () => {
    const { tally, clock, read } = openTally()
    const failed = { ...ENDED, error: { name: 'Error', message: 'boom' } }

    tally.ended(ENDED, 'succeeded', 100)
    tally.ended(failed, 'retrying', null)
    tally.ended(failed, 'dead', null)
    tally.ended({ ...ENDED, ranMs: null }, 'cancelled', null)
    tally.rescued('q', 'ready')
    await clock.advance(5_000)

    expect(await read()).toMatchObject({
      ...{ claimed: 4, succeeded: 1, failed: 3, retried: 1, dead: 1, cancelled: 1, rescued: 1 },
      ...{ waitMsTotal: 100, runMsTotal: 60 },
    })
  })

  test('is dropped while the store is away, and that is reported once', async () => {
    const { tally, clock, fail, heal, heard, read } = openTally()
    fail(['tally'])
    for (let turn = 0; turn < 3; turn++) {
      tally.enqueued('q', 1)
      await clock.advance(5_000)
    }
    heal()
    tally.enqueued('q', 7)
    await clock.advance(5_000)

    expect((await read()).enqueued).toBe(7)
    expect(heard('store.failed')).toMatchObject([{ during: 'tally' }])
    expect(heard('store.recovered')).toMatchObject([{ during: 'tally' }])
  })

  test('tells what is left when it is closed', async () => {
    const { tally, calls, clock, read } = openTally()
    tally.enqueued('q', 1)

    await tally.close()
    await clock.advance(60_000)

    expect((await read()).enqueued).toBe(1)
    expect(calls('tally')).toBe(1)
  })
})

test('a connected queue counts what its client and its workers do', async () => {
  const clock = manualClock()
  const store = memoryStore({ clock })
  const sinceMs = clock.now()
  const holdfast = await openHoldfast(store, { ports: testPorts(clock), upkeep: false })
  const good = defineJob('good')
  const bad = defineJob('bad')
  await holdfast.enqueueMany(good, [null, null])
  await holdfast.enqueue(bad, null, { idempotencyKey: 'k' })
  await holdfast.enqueue(bad, null, { idempotencyKey: 'k' })
  const worker = holdfast.worker({
    handlers: [
      good.handle(() => {}),
      bad.handle(() => {
        throw new DropJob('no')
      }),
    ],
  })
  await clock.advance(1_000)

  await worker.tick()
  await clock.advance(5_000)

  const [point] = await store.series({ queue: 'default', sinceMs, stepMs: 60_000 })
  expect(point).toMatchObject({ enqueued: 3, claimed: 3, succeeded: 2, failed: 1, dead: 1, waitMsTotal: 3_000 })
  await holdfast.close()
})
