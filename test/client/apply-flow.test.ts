// Settings of flow control from a document: what differs is written, everything is checked first, a failure says how far it came.

import { describe, expect, test } from 'vitest'
import type { FlowChange } from '../../src/client/apply-flow.js'
import type { Client } from '../../src/client/client.js'
import type { FlowDocument, FlowProblem } from '../../src/client/flow-document.js'
import { HoldfastError, isHoldfastError } from '../../src/core/errors.js'
import { NO_LIMIT } from '../../src/core/flow/settings.js'
import { openClient } from './support.js'

const DOCUMENT: FlowDocument = {
  limits: {
    stripe: { concurrency: 20, rate: '100/s' },
    mailer: { concurrency: { min: 2, max: 50 }, breaker: { cooldown: '10s', cooldownMax: '1m' } },
    free: {},
  },
  queues: {
    billing: {
      concurrency: 50,
      rate: { limit: 500, per: '10s', burst: 50 },
      maxDepth: 1_000,
      groups: { concurrency: 2 },
    },
    orders: { groups: { ordered: true, onDead: 'stop' }, aging: '90s', onFull: 'wait' },
  },
  groups: { billing: { acme: { concurrency: 10, weight: 3 }, 'big & old': { rate: '5/m' } } },
}

const named = ({ kind, name, queue }: FlowChange) => [kind, ...(queue === null ? [] : [queue]), name].join(' ')

async function failure(call: Promise<unknown>): Promise<HoldfastError> {
  const error = await call.then(
    () => null,
    (thrown: unknown) => thrown,
  )
  if (!isHoldfastError(error)) throw new Error('the call did not fail as expected')
  return error
}

const audited = async (client: Client) => (await client.audit({ limit: 100 })).entries.length

describe('a document', () => {
  test('sets limits, queues and groups, and set again changes nothing', async () => {
    const { client } = await openClient()

    const applied = await client.applyFlow(DOCUMENT, { by: 'deploy' })
    const lines = await audited(client)
    const again = await client.applyFlow(DOCUMENT, { by: 'deploy' })

    expect(applied.changes.map(named)).toEqual([
      ...['limit stripe', 'limit mailer', 'limit free', 'queue billing', 'queue orders'],
      ...['group billing acme', 'group billing big & old'],
    ])
    expect((await client.limits()).find(({ name }) => name === 'stripe')).toMatchObject({
      concurrency: 20,
      rate: { limit: 100, perMs: 1_000, burst: 100, counts: 'starts' },
    })
    expect((await client.groups('billing')).groups[0]).toMatchObject({ group: 'acme', override: { weight: 3 } })
    expect(again).toEqual({ dryRun: false, changes: [], refused: [] })
    expect(await audited(client)).toBe(lines)
    expect((await client.audit({ limit: 100 })).entries.every(({ actor }) => actor === 'deploy')).toBe(true)
  })

  test('is what is read back, and applying that changes nothing', async () => {
    const { client } = await openClient()
    await client.applyFlow(DOCUMENT)

    const read = await client.readFlow()

    expect(read).toEqual({
      ...DOCUMENT,
      limits: {
        ...DOCUMENT.limits,
        mailer: {
          concurrency: { min: 2, max: 50 },
          breaker: { failures: 0.5, of: 20, within: '30s', cooldown: '10s', cooldownMax: '1m', probes: 3 },
        },
      },
    })
    expect((await client.applyFlow(read, { prune: true })).changes).toEqual([])
  })

  test('in a dry run says what is and what would be, and changes nothing', async () => {
    const { client } = await openClient()
    await client.setLimit('stripe', { concurrency: 5 })
    const lines = await audited(client)

    const { dryRun, changes } = await client.applyFlow(
      { limits: { stripe: { concurrency: 20 }, new: {} } },
      { dryRun: true },
    )

    expect(dryRun).toBe(true)
    expect(changes).toEqual([
      {
        kind: 'limit',
        name: 'stripe',
        queue: null,
        from: { concurrency: 5 },
        to: { concurrency: 20 },
        wasDefinition: false,
      },
      { kind: 'limit', name: 'new', queue: null, from: null, to: {}, wasDefinition: false },
    ])
    expect(await audited(client)).toBe(lines)
    expect(await client.limits()).toHaveLength(1)
  })

  test('leaves the other settings of a queue as they are, and its pause', async () => {
    const { client } = await openClient()
    await client.setQueue('billing', { maxAttempts: 3, retention: '3d', concurrency: 1 })
    await client.pause('billing')

    await client.applyFlow({ queues: { billing: { concurrency: 7 } } })
    const set = (await client.queues())[0]!
    await client.applyFlow({ queues: { billing: {} } })

    expect(set).toMatchObject({ paused: true, settings: { limits: { maxAttempts: 3 }, retentionMs: 259_200_000 } })
    expect(set.settings.flow).toMatchObject({ concurrency: 7 })
    expect((await client.queues())[0]!.settings).toEqual({ limits: { maxAttempts: 3 }, retentionMs: 259_200_000 })
  })

  test('takes over what a definition set, and says so', async () => {
    const { client, store } = await openClient()
    await store.setLimit('type:charge', { ...NO_LIMIT, concurrency: 5 }, 'worker', 'definition')
    const document = { limits: { 'type:charge': { concurrency: 5 } } }

    const { changes } = await client.applyFlow(document)

    expect(changes).toMatchObject([{ name: 'type:charge', wasDefinition: true }])
    expect((await client.limits())[0]).toMatchObject({ origin: 'operator' })
    expect((await client.applyFlow(document)).changes).toEqual([])
  })
})

describe('pruning', () => {
  test('takes away what the document does not name', async () => {
    const { client } = await openClient()
    await client.applyFlow(DOCUMENT)

    const { changes } = await client.applyFlow(
      {
        limits: { stripe: { concurrency: 20, rate: '100/s' } },
        groups: { billing: { acme: { concurrency: 10, weight: 3 } } },
      },
      { prune: true },
    )

    expect(changes.map(named)).toEqual([
      ...['group billing big & old', 'queue billing', 'queue orders', 'limit free', 'limit mailer'],
    ])
    expect(changes.every(({ to }) => to === null)).toBe(true)
    expect((await client.limits()).map(({ name }) => name)).toEqual(['stripe'])
    expect((await client.queues()).map(({ settings }) => settings)).toEqual([{ limits: {} }, { limits: {} }])
  })

  test('leaves what a definition set, pauses and forced breakers', async () => {
    const { client, store } = await openClient()
    await store.setLimit('type:charge', { ...NO_LIMIT, concurrency: 5 }, 'worker', 'definition')
    await client.setLimit('stripe', {})
    await client.openBreaker('stripe')
    await client.pauseGroup('billing', 'acme')

    const { changes } = await client.applyFlow({ limits: { stripe: {} } }, { prune: true })

    expect(changes).toEqual([])
    expect(await client.limits()).toMatchObject([
      { name: 'stripe', breaker: { forced: 'open' } },
      { name: 'type:charge', concurrency: 5 },
    ])
    expect((await client.groups('billing')).groups).toMatchObject([{ group: 'acme', paused: true }])
  })

  test('a limit that jobs name stays and is reported, and the rest is done', async () => {
    const { client } = await openClient()
    await client.applyFlow({ limits: { a: {}, used: {}, z: {} } })
    await client.enqueue('charge', {}, { limits: ['used'] })

    const { changes, refused } = await client.applyFlow({}, { prune: true })

    expect(changes.map(named)).toEqual(['limit a', 'limit z'])
    expect(refused).toMatchObject([{ change: { name: 'used' }, message: expect.stringContaining('cannot be removed') }])
  })
})

describe('a document with mistakes', () => {
  test('is refused with every mistake and its place, and nothing is written', async () => {
    const { client } = await openClient()
    const document = {
      limits: {
        good: { concurrency: 1 },
        stripe: { concurency: 20, rate: '100/s' },
        mailer: { breaker: { failures: 2 } },
        'queue:billing': { concurrency: 1 },
        nothing: null,
      },
      queues: {
        billing: { maxAttempts: 3, groups: { concurrency: 2, rate: 'fast' } },
        orders: { groups: { onRetry: 'pass' } },
      },
      groups: { billing: { acme: { weight: 0 }, '': {} } },
      limit: {},
    }

    const { code, details, message } = await failure(client.applyFlow(document as never))

    const places = (details.problems as FlowProblem[]).map(({ path }) => path.join('.'))
    expect(code).toBe('invalid_option')
    expect(places.sort()).toEqual([
      'groups.billing.',
      'groups.billing.acme.weight',
      'limit',
      'limits.mailer.breaker.failures',
      'limits.nothing',
      'limits.queue:billing',
      'limits.stripe.concurency',
      'queues.billing.maxAttempts',
      'queues.orders.groups.onRetry',
    ])
    expect(message).toContain('did you mean concurrency?')
    expect(await client.limits()).toEqual([])
    expect(await client.queues()).toEqual([])
  })

  test.each([
    [null, ''],
    [[], ''],
    ['limits', ''],
    [{ limits: [] }, 'limits'],
    [{ limits: { a: 5 } }, 'limits.a'],
    [{ queues: { a: { rate: { limit: 1 } } } }, 'queues.a.rate'],
    [
      { queues: { a: { groups: { concurrency: 2, rate: { limit: 1, per: '1s', brust: 2 } } } } },
      'queues.a.groups.rate.brust',
    ],
    [{ limits: { a: { concurrency: { min: 5, max: 2 } } } }, 'limits.a.concurrency'],
    [{ groups: { 'no such name!': {} } }, 'groups.no such name!'],
    [JSON.parse('{"limits":{"__proto__":{"concurrency":0}}}'), 'limits.__proto__'],
  ])('%j is refused at %j', async (document, place) => {
    const { client } = await openClient()

    const { code, details } = await failure(client.applyFlow(document as never))

    expect(code).toBe('invalid_option')
    expect((details.problems as FlowProblem[]).map(({ path }) => path.join('.'))).toEqual([place])
  })

  test.each([[{ dryRun: 'yes' }], [{ prune: 1 }], [{ force: true }], [{ by: '' }]])(
    'options %j are refused',
    async (options) => {
      const { client } = await openClient()

      expect((await failure(client.applyFlow({}, options as never))).code).toBe('invalid_option')
    },
  )
})

describe('a failure halfway', () => {
  test('says what was applied and what is left, and a second call makes the rest', async () => {
    let isDown = true
    const { client } = await openClient({
      between: (store) => ({
        ...store,
        setQueue: async (...call) => {
          if (isDown) throw new HoldfastError('store_unavailable', 'the store is gone', { retryable: true })
          return store.setQueue(...call)
        },
      }),
    })

    const error = await failure(client.applyFlow(DOCUMENT))
    isDown = false
    const rest = await client.applyFlow(DOCUMENT)

    expect(error).toMatchObject({ code: 'store_unavailable', retryable: true })
    expect(error.message).toContain('3 of 7 changes of flow control are made; that of queue "billing" failed')
    expect((error.details.applied as FlowChange[]).map(named)).toEqual(['limit stripe', 'limit mailer', 'limit free'])
    expect(named(error.details.failed as FlowChange)).toBe('queue billing')
    expect((error.details.left as FlowChange[]).map(named)).toEqual([
      ...['queue orders', 'group billing acme', 'group billing big & old'],
    ])
    expect(rest.changes.map(named)[0]).toBe('queue billing')
  })
})
