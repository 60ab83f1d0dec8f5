// Flow control as a program uses it: groups and limits of jobs, keys that replace, full queues, limits and groups in operators' hands.

import { describe, expect, test } from 'vitest'
import { defineJob } from '../../src/client/define-job.js'
import { isHoldfastError } from '../../src/core/errors.js'
import { claimJobs } from '../../src/testing/store-suite/steps.js'
import { openClient } from './support.js'

const QUEUE = 'default'

/** The code and the message a call fails with. */
async function failure(call: Promise<unknown>): Promise<{ code: string; message: string; details: object }> {
  const error = await call.then(
    () => null,
    (thrown: unknown) => thrown,
  )
  if (!isHoldfastError(error)) throw new Error('the call did not fail as expected')
  return { code: error.code, message: error.message, details: error.details }
}

describe('a job says', () => {
  test('which group it belongs to and which limits it counts in', async () => {
    const { client } = await openClient()
    await client.setLimit('stripe', { concurrency: 5 })

    const { id } = await client.enqueue('charge', {}, { group: 'acme', limits: ['stripe'], cost: 3 })

    expect((await client.get(id))!.flow).toEqual({ group: 'acme', limits: ['stripe'], cost: 3 })
  })

  test('nothing about flow control, and carries nothing of it', async () => {
    const { client } = await openClient()

    const { id } = await client.enqueue('charge', {})

    expect('flow' in (await client.get(id))!).toBe(false)
  })

  test.each([
    [{ group: '' }, 'invalid_option'],
    [{ group: 'x'.repeat(201) }, 'invalid_option'],
    [{ group: 5 }, 'invalid_option'],
    [{ group: 'a\u0000b' }, 'invalid_option'],
    [{ group: '\ud800' }, 'invalid_option'],
    [{ group: null }, 'invalid_option'],
    [{ limits: ['a b'] }, 'invalid_name'],
    [{ limits: 'stripe' }, 'invalid_option'],
    [{ limits: ['a', 'b', 'c', 'd', 'e'] }, 'invalid_option'],
    [{ limits: ['queue:default'] }, 'invalid_name'],
    [{ cost: -1 }, 'invalid_option'],
    [{ cost: 1e12 }, 'invalid_option'],
    [{ cost: Number.NaN }, 'invalid_option'],
    [{ onFull: 'drop' }, 'invalid_option'],
    [{ debounce: { key: 'a' } }, 'invalid_option'],
    [{ debounce: { key: 'a', wait: '5s', maxWait: '1s' } }, 'invalid_option'],
    [{ debounce: { key: '', wait: '5s' } }, 'invalid_option'],
    [{ debounce: { key: 'a', wait: '5s' }, delay: '1s' }, 'invalid_option'],
    [{ replace: { key: 'a' }, idempotencyKey: 'b' }, 'invalid_option'],
    [{ debounce: { key: 'a', wait: '5s' }, idempotencyKey: 'b' }, 'invalid_option'],
    [{ debounce: { key: 'a', wait: '5s' }, throttle: { key: 'a', for: '1h' } }, 'invalid_option'],
    [{ debounce: { key: 'a', wait: '5s' }, replace: { key: 'a' } }, 'invalid_option'],
    [{ debounce: { key: 'a', wait: 0 } }, 'invalid_option'],
    [{ debounce: { key: 'a', wait: '-5s' } }, 'invalid_option'],
    [{ debounce: { key: 'a', wait: '5s', max: '1m' } }, 'invalid_option'],
    [{ debounce: { key: 'a\u0000', wait: '5s' } }, 'invalid_option'],
    [{ debounce: { key: 'a'.repeat(1_000), wait: '5s' } }, 'invalid_option'],
    [{ replace: { key: 'a' }, after: '0190a000-0000-7000-8000-000000000000' }, 'invalid_option'],
    [{ replace: { key: 'a' }, runAt: new Date() }, 'invalid_option'],
    [{ replace: { key: 'a', wait: '1s' } }, 'invalid_option'],
    [{ replace: 'a' }, 'invalid_option'],
    [{ throttle: { key: 'a' } }, 'invalid_option'],
    [{ throttle: { key: 'a', for: 0 } }, 'invalid_option'],
  ])('what cannot be, and is refused: %j', async (options, code) => {
    const { client, store } = await openClient()

    expect((await failure(client.enqueue('charge', {}, options as never))).code).toBe(code)
    expect(await store.queues()).toEqual([])
  })

  test('a limit nobody has set, and is refused', async () => {
    const { client } = await openClient()

    const { code, message, details } = await failure(client.enqueue('charge', {}, { limits: ['stirpe'] }))

    expect(code).toBe('limit_unknown')
    expect(message).toContain('setLimit("stirpe", {})')
    expect(details).toEqual({ limit: 'stirpe' })
  })

  test('a limit nobody has set in enqueueMany, and the others are written', async () => {
    const { client } = await openClient()
    const jobs = [
      ['charge', 1],
      ['charge', 2, { limits: ['none'] }],
    ] as const

    const { code, details } = await failure(client.enqueueMany(jobs))

    expect(code).toBe('limit_unknown')
    expect(details).toMatchObject({ refused: [{ index: 1 }], enqueued: [{ created: true }] })
  })
})

describe('a definition says', () => {
  const charge = defineJob<{ tenant: string; cents: number }>('charge', {
    group: ({ tenant }) => tenant,
    cost: ({ cents }) => cents,
    limits: ['stripe'],
    concurrency: 5,
    rate: '100/s',
  })

  test('how group and cost are found in the payload, and has a limit of its type', async () => {
    const { client } = await openClient()
    await client.setLimit('stripe', {})

    const { id } = await client.enqueue(charge, { tenant: 'acme', cents: 250 })

    expect((await client.get(id))!.flow).toEqual({ group: 'acme', limits: ['stripe', 'type:charge'], cost: 250 })
  })

  test('less than the enqueue, which wins', async () => {
    const { client } = await openClient()
    await client.setLimit('ledger', {})

    const options = { group: 'other', limits: ['ledger'], cost: 1 }
    const { id } = await client.enqueue(charge, { tenant: 'acme', cents: 250 }, options)

    expect((await client.get(id))!.flow).toEqual({ group: 'other', limits: ['ledger', 'type:charge'], cost: 1 })
  })

  test('a group that is read from the payload and is none', async () => {
    const { client } = await openClient()
    const odd = defineJob<{ tenant: string | null }>('odd', { group: ({ tenant }) => tenant })

    const { id } = await client.enqueue(odd, { tenant: null })
    expect('flow' in (await client.get(id))!).toBe(false)
    expect((await failure(client.enqueue(odd, { tenant: '' }))).code).toBe('invalid_option')
  })

  test('a group that cannot be read from the payload', async () => {
    const { client } = await openClient()
    const odd = defineJob<{ tenant: { id: string } }>('odd', { group: ({ tenant }) => tenant.id })

    const { code, message } = await failure(client.enqueue(odd, {} as never))

    expect(code).toBe('invalid_payload')
    expect(message).toContain('group of "odd"')
  })

  test('what cannot be, and is refused when it is defined', () => {
    const options = [
      { group: '' },
      { limits: ['a', 'b', 'c', 'd', 'e'] },
      { concurrency: 0 },
      { concurrency: { min: 5, max: 1 } },
      { rate: 'fast' },
      { breaker: { failures: 2 } },
      { cost: -1 },
    ]
    for (const each of options) expect(() => defineJob('odd', each as never)).toThrow(/must|takes/)
  })

  test('group and limits of a schedule’s jobs', async () => {
    const { client } = await openClient()
    await client.setLimit('stripe', {})

    const status = await client.schedule('nightly', {
      cron: '0 0 * * *',
      job: charge,
      payload: { tenant: 'acme', cents: 1 },
    })

    expect(status.flow).toEqual({ group: 'acme', limits: ['stripe', 'type:charge'], cost: 1 })
    const { id } = await client.runSchedule('nightly')
    expect((await client.get(id))!.flow).toMatchObject({ group: 'acme' })
  })
})

describe('keys', () => {
  test('debounce runs once, with the newest payload, after a quiet time', async () => {
    const { client, clock, store } = await openClient()
    const enqueue = (version: number) =>
      client.enqueue('index', { version }, { debounce: { key: 'doc', wait: '5s', maxWait: '1m' } })

    const first = await enqueue(1)
    await clock.advance(3_000)
    const second = await enqueue(2)

    expect(first).toMatchObject({ created: true, state: 'scheduled' })
    expect(second).toEqual({ id: first.id, created: false, replaced: true, state: 'scheduled' })
    await clock.advance(5_000)
    await store.promote(10)
    expect((await claimJobs(store, { queue: QUEUE })).map(({ payload }) => payload)).toEqual(['{"version":2}'])
  })

  test('replace gives a waiting job the newest payload, and a running one a successor', async () => {
    const { client, store } = await openClient()
    const enqueue = (version: number) => client.enqueue('index', { version }, { replace: { key: 'doc' } })
    const first = await enqueue(1)
    expect(await enqueue(2)).toMatchObject({ id: first.id, replaced: true })
    await claimJobs(store, { queue: QUEUE })

    const third = await enqueue(3)

    expect(third).toMatchObject({ created: true, state: 'blocked' })
    expect(await enqueue(4)).toMatchObject({ id: third.id, replaced: true })
  })

  test('throttle lets the first of a time count', async () => {
    const { client, clock } = await openClient()
    const enqueue = () => client.enqueue('digest', {}, { throttle: { key: 'user', for: '1h' } })
    const first = await enqueue()

    expect(await enqueue()).toMatchObject({ id: first.id, created: false })
    await clock.advance(3_600_000)
    expect(await enqueue()).toMatchObject({ created: true })
  })

  test('have no place in the many of one definition', async () => {
    const { client } = await openClient()

    const { message } = await failure(client.enqueueMany('index', [1], { replace: { key: 'a' } } as never))

    expect(message).toContain('a replace names one job')
  })

  test.each(['debounce', 'replace', 'throttle', 'idempotencyKey'])('that are none are named: %s', async (name) => {
    const { client } = await openClient()
    const options = { [name]: { key: '', wait: '5s', for: '1h' } }
    const { key, wait, for: lasts } = { ...options[name]! }
    const own = {
      debounce: { key, wait },
      replace: { key },
      throttle: { key, for: lasts },
      idempotencyKey: { key, for: lasts },
    }

    const { message } = await failure(client.enqueue('index', 1, { [name]: own[name as 'replace'] }))

    expect(message).toContain(`${name}.key must be 1 to`)
  })

  test('of a mixed enqueueMany each replace their own', async () => {
    const { client, store } = await openClient()
    const debounce = { key: 'doc', wait: '5s' } as const

    const answers = await client.enqueueMany([
      ['index', 1, { debounce }],
      ['index', 2, { replace: { key: 'other' } }],
      ['index', 3, { debounce }],
      ['index', 4, { replace: { key: 'other' } }],
    ])

    expect(answers.map(({ created, replaced }) => [created, replaced === true])).toEqual([
      [true, false],
      [true, false],
      [false, true],
      [false, true],
    ])
    expect((await claimJobs(store, { queue: QUEUE })).map(({ payload }) => payload)).toEqual(['4'])
  })
})

describe('a full queue', () => {
  test('refuses an enqueue, which may be tried again', async () => {
    const { client } = await openClient()
    await client.setQueue(QUEUE, { maxDepth: 1 })
    await client.enqueue('work')

    const { code, details } = await failure(client.enqueue('work'))

    expect(code).toBe('queue_full')
    expect(details).toMatchObject({ queue: QUEUE, maxDepth: 1 })
  })

  test('lets an enqueue wait until there is room', async () => {
    const { client, clock, store } = await openClient()
    await client.setQueue(QUEUE, { maxDepth: 1, onFull: 'wait' })
    await client.enqueue('work')
    let result: unknown = null
    const waiting = client.enqueue('work').then((answer) => (result = answer))
    await clock.advance(2_000)
    expect(result).toBe(null)

    await claimJobs(store, { queue: QUEUE })
    await clock.advance(2_000)
    await waiting

    expect(result).toMatchObject({ created: true, state: 'ready' })
  })

  test('lets an enqueue wait where the call says so, whatever the queue says', async () => {
    const { client, clock, store } = await openClient()
    await client.setQueue(QUEUE, { groups: { maxDepth: 1 } })
    await client.enqueue('work', {}, { group: 'acme' })

    const waiting = client.enqueue('work', {}, { group: 'acme', onFull: 'wait' })
    await claimJobs(store, { queue: QUEUE })
    await clock.advance(1_000)

    expect(await waiting).toMatchObject({ created: true })
  })

  test('makes no enqueue wait longer than 30 seconds', async () => {
    const { client, clock } = await openClient()
    await client.setQueue(QUEUE, { maxDepth: 1, onFull: 'wait' })
    await client.enqueue('work')

    const waiting = failure(client.enqueue('work'))
    await clock.advance(31_000)

    expect((await waiting).code).toBe('queue_full')
  })

  test('ends the wait of a call whose signal fires', async () => {
    const { client, clock } = await openClient()
    await client.setQueue(QUEUE, { maxDepth: 1, onFull: 'wait' })
    await client.enqueue('work')
    const controller = new AbortController()

    const waiting = failure(client.enqueue('work', {}, { signal: controller.signal }))
    await clock.advance(100)
    controller.abort()

    expect((await waiting).code).toBe('aborted')
  })

  test('ends the waits when the client closes', async () => {
    const { client, clock } = await openClient()
    await client.setQueue(QUEUE, { maxDepth: 1, onFull: 'wait' })
    await client.enqueue('work')
    const waiting = failure(client.enqueue('work'))
    await clock.advance(100)

    await client.close()

    expect((await waiting).code).toBe('queue_full')
  })

  test('lets many enqueues wait without a warning of Node.js', async () => {
    const { client, clock } = await openClient()
    const warnings: string[] = []
    const note = ({ name }: Error) => warnings.push(name)
    process.on('warning', note)
    await client.setQueue(QUEUE, { maxDepth: 1, onFull: 'wait' })
    await client.enqueue('work')

    const waiting = Array.from({ length: 20 }, () => failure(client.enqueue('work')))
    await clock.advance(31_000)
    await Promise.all(waiting)
    await new Promise((resolve) => setImmediate(resolve))
    process.off('warning', note)

    expect(warnings).toEqual([])
  })

  test('cannot make an enqueue in a transaction wait', async () => {
    const { client } = await openClient()
    const tx = { query: async () => ({ rows: [] }) }

    expect((await failure(client.enqueue('work', {}, { tx, onFull: 'wait' }))).message).toContain('tx')
  })

  test('refuses the jobs of enqueueMany that are too many', async () => {
    const { client } = await openClient()
    await client.setQueue(QUEUE, { maxDepth: 2 })

    const { code, details } = await failure(client.enqueueMany('work', [1, 2, 3]))

    expect(code).toBe('queue_full')
    expect(details).toMatchObject({ refused: [{ index: 2 }] })
  })
})

describe('an operator', () => {
  test('sets, looks at and removes limits', async () => {
    const { client } = await openClient()

    expect(await client.setLimit('stripe', { concurrency: 20, rate: '100/s' })).toMatchObject({
      name: 'stripe',
      concurrency: 20,
      rate: { limit: 100, perMs: 1_000, burst: 100 },
    })
    expect((await client.limits()).map(({ name }) => name)).toEqual(['stripe'])
    await client.removeLimit('stripe')
    expect(await client.limits()).toEqual([])
  })

  test('cannot remove a limit in use, or one there is not', async () => {
    const { client } = await openClient()
    await client.setLimit('stripe', {})
    await client.enqueue('charge', {}, { limits: ['stripe'] })

    expect((await failure(client.removeLimit('stripe'))).code).toBe('limit_in_use')
    expect((await failure(client.removeLimit('none'))).code).toBe('limit_not_found')
    expect((await failure(client.removeLimit('queue:default'))).code).toBe('invalid_name')
  })

  test('holds breakers open and closed and lets them go', async () => {
    const { client, store } = await openClient()
    await client.setLimit('stripe', { breaker: {} })
    await client.enqueue('charge', {}, { limits: ['stripe'] })

    await client.openBreaker('stripe', { by: 'ada' })
    expect(await claimJobs(store, { queue: QUEUE })).toEqual([])
    await client.closeBreaker('stripe')
    expect(await client.limits()).toMatchObject([{ breaker: { forced: 'closed' } }])
    await client.releaseBreaker('stripe')
    expect(await claimJobs(store, { queue: QUEUE })).toHaveLength(1)
    expect((await failure(client.openBreaker('none'))).code).toBe('limit_not_found')
    expect((await client.audit()).entries[2]).toMatchObject({ actor: 'ada', action: 'force breaker', target: 'stripe' })
  })

  test('sets, pauses, resumes and looks at groups', async () => {
    const { client } = await openClient()
    await client.setGroup(QUEUE, 'acme', { concurrency: 10, weight: 3 })
    await client.pauseGroup(QUEUE, 'acme')
    await client.enqueue('work', {}, { group: 'beta' })

    expect(await client.groups(QUEUE, { limit: 1 })).toMatchObject({
      groups: [{ group: 'acme', paused: true, override: { concurrency: 10, weight: 3 } }],
      cursor: 'acme',
    })
    expect(await client.groups(QUEUE, { cursor: 'acme' })).toMatchObject({ groups: [{ group: 'beta' }], cursor: null })
    await client.resumeGroup(QUEUE, 'acme')
    await client.setGroup(QUEUE, 'acme', null)
    expect((await client.groups(QUEUE)).groups.map(({ group }) => group)).toEqual(['beta'])
  })

  test('sets flow control with the rest of a queue', async () => {
    const { client } = await openClient()

    await client.setQueue(QUEUE, {
      maxAttempts: 3,
      concurrency: 50,
      groups: { ordered: true, onDead: 'stop' },
      aging: '1m',
    })

    expect((await client.queues())[0]!.settings).toMatchObject({
      limits: { maxAttempts: 3 },
      flow: { concurrency: 50, agingMs: 60_000, groups: { ordered: true, onRetry: 'wait', onDead: 'stop' } },
    })
    await client.setQueue(QUEUE, { maxAttempts: 4 }, { keepFlow: true })
    expect((await client.queues())[0]!.settings).toMatchObject({
      limits: { maxAttempts: 4 },
      flow: { concurrency: 50 },
    })
    await client.setQueue(QUEUE, { maxAttempts: 3 })
    expect('flow' in (await client.queues())[0]!.settings).toBe(false)
  })
})

describe('explain says', () => {
  const codes = async (client: Awaited<ReturnType<typeof openClient>>['client'], id: string) =>
    (await client.explain(id)).reasons.map(({ code }) => code)

  test('that a group is busy, paused, or out of tokens', async () => {
    const { client, store } = await openClient()
    await client.setQueue(QUEUE, { groups: { concurrency: 1, rate: '1/m' } })
    await client.enqueue('work', {}, { group: 'acme' })
    const { id } = await client.enqueue('work', {}, { group: 'acme' })
    await claimJobs(store, { queue: QUEUE })
    await client.pauseGroup(QUEUE, 'acme')

    const { reasons, next } = await client.explain(id)

    expect(reasons.map(({ code }) => code)).toEqual(['no_worker', 'group_paused', 'group_busy', 'rate_limited'])
    expect(reasons[2]!.text).toBe('1 of 1 jobs of group "acme" are running')
    expect(next).toContain('resume group "acme"')
  })

  test('that a batch of a group is running', async () => {
    const { client, store } = await openClient()
    await client.setQueue(QUEUE, { groups: { concurrency: 1 } })
    for (let count = 0; count < 2; count++) await client.enqueue('work', {}, { group: 'acme' })
    const { id } = await client.enqueue('work', {}, { group: 'acme' })
    await claimJobs(store, { queue: QUEUE, batches: [{ type: 'work', max: 2 }] })

    const { reasons, next } = await client.explain(id)

    const busy = reasons.find(({ code }) => code === 'group_busy')
    expect(busy?.text).toBe('2 jobs of group "acme" are running, as a batch or since before its concurrency was 1')
    expect(next).toContain('wait for them, or raise the concurrency of group "acme" with setGroup')
  })

  test('which job of an ordered group comes first', async () => {
    const { client, store } = await openClient()
    await client.setQueue(QUEUE, { groups: { ordered: true } })
    const first = await client.enqueue('work', {}, { group: 'acme' })
    const { id } = await client.enqueue('work', {}, { group: 'acme' })
    await claimJobs(store, { queue: QUEUE })

    const { reasons } = await client.explain(id)

    expect(reasons.find(({ code }) => code === 'group_order')!.text).toBe(
      `it comes after job ${first.id} of its ordered group, which is running`,
    )
  })

  test('that a limit is full, its rate used up, or its breaker open', async () => {
    const { client, store } = await openClient()
    await client.setLimit('stripe', { concurrency: 1, rate: '1/m', breaker: { of: 1 } })
    await client.enqueue('work', {}, { limits: ['stripe'] })
    const { id } = await client.enqueue('work', {}, { limits: ['stripe'] })
    await claimJobs(store, { queue: QUEUE })
    await store.observe([{ limit: 'stripe', ok: 0, failed: 1, overloaded: 0 }])

    expect(await codes(client, id)).toEqual(['no_worker', 'breaker_open', 'limit_full', 'rate_limited'])
  })

  test('that its queue is full', async () => {
    const { client, store } = await openClient()
    await client.setQueue(QUEUE, { concurrency: 1 })
    await client.enqueue('work')
    const { id } = await client.enqueue('work')
    await claimJobs(store, { queue: QUEUE })

    expect((await client.explain(id)).summary).toContain('limit "queue:default": 1 of 1 are running')
  })

  test('how many of its group come before it', async () => {
    const { client } = await openClient()
    for (let index = 0; index < 3; index++) await client.enqueue('work', {}, { group: 'acme' })
    const { id } = await client.enqueue('work', {}, { group: 'acme' })

    expect((await client.explain(id)).summary).toContain('3 jobs of group "acme" come before it')
  })
})
