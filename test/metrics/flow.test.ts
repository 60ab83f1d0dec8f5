// Flow control in metrics and events: what limits, breakers, groups and full queues tell, with labels that cannot grow.

import { afterEach, describe, expect, test } from 'vitest'
import { defineJob } from '../../src/client/define-job.js'
import type { HoldfastEvent } from '../../src/core/events.js'
import { readExposition } from './exposition.js'
import { type MetricsStage, openMetricsStage } from './stage.js'

const call = defineJob<null>('call', { queue: 'calls', limits: ['stripe'] })

const stages: MetricsStage[] = []

async function open(...options: Parameters<typeof openMetricsStage>): Promise<MetricsStage> {
  const stage = await openMetricsStage(...options)
  stages.push(stage)
  return stage
}

afterEach(async () => {
  for (const { holdfast, metrics, clock } of stages.splice(0)) {
    metrics.close()
    const closing = holdfast.close()
    await clock.advance(60_000)
    await closing
  }
})

function heard<Name extends HoldfastEvent['name']>({ holdfast }: MetricsStage, name: Name) {
  const events: Extract<HoldfastEvent, { name: Name }>[] = []
  holdfast.on((event) => {
    if (event.name === name) events.push(event as Extract<HoldfastEvent, { name: Name }>)
  })
  return events
}

describe('limits', () => {
  test('running jobs, capacity and tokens of a limit are shown', async () => {
    const { holdfast, store, read } = await open()
    await holdfast.setLimit('stripe', { concurrency: 2, rate: { limit: 5, per: '1h' } })
    await holdfast.enqueueMany(call, [null, null, null])
    await store.claim({ queues: [{ queue: 'calls', limit: 9 }], types: null, worker: 'w', leaseMs: 600_000 })

    expect(await read('holdfast_limit_running', { limit: 'stripe' })).toBe(2)
    expect(await read('holdfast_limit_capacity', { limit: 'stripe' })).toBe(2)
    expect(await read('holdfast_limit_tokens', { limit: 'stripe' })).toBe(3)
    expect(await read('holdfast_limit_breaker_state', { limit: 'stripe' })).toBeNull()
  })

  test('a limit without bounds shows neither capacity nor tokens', async () => {
    const { holdfast, read } = await open()
    await holdfast.setLimit('stripe', {})

    expect(await read('holdfast_limit_running', { limit: 'stripe' })).toBe(0)
    expect(await read('holdfast_limit_capacity', { limit: 'stripe' })).toBeNull()
    expect(await read('holdfast_limit_tokens', { limit: 'stripe' })).toBeNull()
  })

  test('the position of a breaker is a number, and who holds it is another', async () => {
    const { holdfast, store, read } = await open()
    await holdfast.setLimit('stripe', { breaker: { of: 2 } })
    const state = () => read('holdfast_limit_breaker_state', { limit: 'stripe' })
    const forced = () => read('holdfast_limit_breaker_forced', { limit: 'stripe' })
    expect([await state(), await forced()]).toEqual([0, 0])

    await store.observe([{ limit: 'stripe', ok: 0, failed: 2, overloaded: 0 }])
    expect([await state(), await forced()]).toEqual([2, 0])

    await holdfast.openBreaker('stripe')
    expect([await state(), await forced()]).toEqual([2, 1])
  })

  test('limits beyond the bound are one label: sums, and the worst of their breakers', async () => {
    const { holdfast, store, read, metrics } = await open({ namesMax: 2 })
    for (const name of ['d', 'c', 'b', 'a']) await holdfast.setLimit(name, { concurrency: 3, breaker: { of: 1 } })
    await store.observe([{ limit: 'c', ok: 0, failed: 1, overloaded: 0 }])

    expect(await read('holdfast_limit_capacity', { limit: 'other' })).toBe(6)
    expect(await read('holdfast_limit_breaker_state', { limit: 'other' })).toBe(2)
    const shown = readExposition(await metrics.render()).find(({ name }) => name === 'holdfast_limit_running')!
    expect(shown.samples.map(({ labels }) => labels.limit)).toEqual(['a', 'b', 'other'])
  })

  test('limits that were asked for get their label whatever their names', async () => {
    const { holdfast, read } = await open({ namesMax: 1, limits: ['z'] })
    for (const name of ['a', 'z']) await holdfast.setLimit(name, { concurrency: 4 })

    expect(await read('holdfast_limit_capacity', { limit: 'z' })).toBe(4)
    expect(await read('holdfast_limit_capacity', { limit: 'a' })).toBeNull()
  })
})

describe('queues under flow control', () => {
  test('held jobs, their groups and stopped groups are shown', async () => {
    const stage = await open()
    const { holdfast, clock, read } = stage
    const apply = defineJob<null>('apply', { queue: 'orders', maxAttempts: 1 })
    await holdfast.setQueue('orders', { groups: { ordered: true, onDead: 'stop' } })
    for (const group of ['one', 'one', 'two']) await holdfast.enqueue(apply, null, { group })
    expect(await read('holdfast_flow_held', { queue: 'orders' })).toBe(3)
    expect(await read('holdfast_flow_groups_waiting', { queue: 'orders' })).toBe(2)
    expect(await read('holdfast_flow_groups_stopped', { queue: 'orders' })).toBe(0)
    const handler = apply.handle(() => {
      throw new Error('no')
    })

    await holdfast.worker({ queues: ['orders'], handlers: [handler] }).start()
    await clock.advance(1_000)

    expect(await read('holdfast_flow_held', { queue: 'orders' })).toBe(1)
    expect(await read('holdfast_flow_groups_stopped', { queue: 'orders' })).toBe(2)
    expect(await read('holdfast_flow_arrivals', { queue: 'orders' })).toBe(0)
  })

  test('many scrapes are one look at the store', async () => {
    const { holdfast, metrics, calls } = await open()
    await holdfast.setLimit('stripe', {})
    await metrics.render()
    const before = calls('flowCounts')

    await Promise.all(Array.from({ length: 20 }, () => metrics.render()))

    expect(calls('flowCounts') - before).toBe(0)
  })

  test('while the store is away nothing is said about limits', async () => {
    const { holdfast, fail, read } = await open()
    await holdfast.setLimit('stripe', {})
    expect(await read('holdfast_limit_running', { limit: 'stripe' })).toBe(0)

    fail('flowCounts')

    expect(await read('holdfast_limit_running', { limit: 'stripe' })).toBeNull()
    expect(await read('holdfast_store_up')).toBe(0)
  })
})

describe('what happens', () => {
  test('an attempt that is told to wait counts by what waits with it', async () => {
    const { holdfast, clock, read } = await open()
    await holdfast.setLimit('stripe', {})
    const scopes = [{ limit: 'stripe' }, 'group', 'queue', 'job'] as const
    let runs = 0
    const handler = call.handle((_, ctx) => (runs < 4 ? ctx.rateLimited('1s', scopes[runs++]) : null))
    await holdfast.enqueue(call, null, { group: 'acme' })
    await holdfast.worker({ queues: ['calls'], handlers: [handler] }).start()

    await clock.advance(5_000)

    const count = (scope: string, limit = '') => read('holdfast_rate_limited_total', { scope, limit })
    expect(await count('limit', 'stripe')).toBe(1)
    expect(await count('group')).toBe(1)
    expect(await count('queue')).toBe(1)
    expect(await count('job')).toBe(1)
  })

  test('enqueues to a full queue count, and are reported once and then with their number', async () => {
    const stage = await open()
    const { holdfast, clock, read } = stage
    const events = heard(stage, 'queue.full')
    await holdfast.setQueue('calls', { maxDepth: 1 })
    const plain = defineJob<null>('plain', { queue: 'calls' })
    await holdfast.enqueue(plain, null)

    for (let index = 0; index < 5; index++) {
      await expect(holdfast.enqueue(plain, null)).rejects.toMatchObject({ code: 'queue_full' })
    }
    await expect(holdfast.enqueueMany(plain, [null, null])).rejects.toMatchObject({ code: 'queue_full' })
    expect(events).toEqual([{ name: 'queue.full', queue: 'calls', group: null, maxDepth: 1, count: 1 }])
    await clock.advance(10_000)

    expect(events.slice(1)).toEqual([{ name: 'queue.full', queue: 'calls', group: null, maxDepth: 1, count: 6 }])
    expect(await read('holdfast_queue_full_total', { queue: 'calls' })).toBe(7)
    await clock.advance(60_000)
    expect(events).toHaveLength(2)
  })

  test('what a queue refused last is reported when the client closes', async () => {
    const stage = await open()
    const { holdfast } = stage
    const events = heard(stage, 'queue.full')
    await holdfast.setQueue('calls', { groups: { maxDepth: 1 } })
    const enqueue = () => holdfast.enqueue('t', null, { queue: 'calls', group: 'acme' })
    await enqueue()
    for (let index = 0; index < 3; index++) await expect(enqueue()).rejects.toMatchObject({ code: 'group_full' })

    await holdfast.close()

    expect(events.map(({ group, count }) => [group, count])).toEqual([
      ['acme', 1],
      ['acme', 2],
    ])
  })

  test('an enqueue that waits for room is reported as well', async () => {
    const stage = await open()
    const { holdfast, clock } = stage
    const events = heard(stage, 'queue.full')
    await holdfast.setQueue('calls', { maxDepth: 1 })
    await holdfast.enqueue('t', null, { queue: 'calls' })
    const waiting = holdfast.enqueue('t', null, { queue: 'calls', onFull: 'wait' })

    await clock.advance(1_000)
    await holdfast.setQueue('calls', { maxDepth: 2 })
    await clock.advance(1_000)

    await waiting
    expect(events).toMatchObject([{ queue: 'calls', count: 1 }])
  })

  test('a limit that gives no jobs is reported with the reason, and again when it goes on, once each', async () => {
    const stage = await open()
    const { holdfast, clock } = stage
    const closed = heard(stage, 'limit.closed')
    const opened = heard(stage, 'limit.opened')
    await holdfast.setLimit('stripe', { concurrency: 1 })
    await holdfast.setLimit('ledger', {})
    await clock.advance(30_000)
    expect(closed).toEqual([])

    await holdfast.openBreaker('stripe')
    await clock.advance(60_000)
    expect(closed).toEqual([{ name: 'limit.closed', limit: 'stripe', why: 'breaker' }])
    expect(opened).toEqual([])

    await holdfast.closeBreaker('stripe')
    await clock.advance(60_000)
    expect(opened).toEqual([{ name: 'limit.opened', limit: 'stripe' }])
    expect(closed).toHaveLength(1)
  })

  test('jobs that a claim left waiting for a time are reported at most once in ten seconds', async () => {
    const stage = await open()
    const { holdfast, clock } = stage
    const events = heard(stage, 'job.held')
    await holdfast.setQueue('calls', { rate: '1/s' })
    const plain = defineJob<null>('plain', { queue: 'calls' })
    await holdfast.enqueueMany(
      plain,
      Array.from({ length: 50 }, () => null),
    )

    await holdfast.worker({ queues: ['calls'], handlers: [plain.handle(() => null)] }).start()
    await clock.advance(25_000)

    expect(events.map(({ queue }) => queue)).toEqual(['calls', 'calls', 'calls'])
  })
})
