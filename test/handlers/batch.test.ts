// A batch and the job behind it, on every store: it runs once when all have ended, however they did.

import { expect, test } from 'vitest'
import { type BatchEnd, batchEnd, batchHandler, DropJob, defineJob, openHoldfast } from '../../src/index.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import { failure, onStores } from './stores.js'

const send = defineJob<{ to: number }>('send', { queue: 'mail' })
const report = defineJob<{ campaign: number }, { campaign: number; end: BatchEnd | null }>('report')

const handlers = [
  send.handle(({ to }) => {
    if (to % 10 === 0) throw new DropJob('no such address')
  }),
  report.handle(async ({ campaign }, ctx) => {
    const [end] = await ctx.parentResults(batchEnd)
    return { campaign, end: end ?? null }
  }),
  batchHandler,
]
const payloads = (count: number) => Array.from({ length: count }, (_, to) => ({ to: to + 1 }))

onStores(['memory', 'PostgreSQL', 'Redis'], (queue) => {
  test('the job behind a batch runs when all others have ended, and knows how', async () => {
    const { holdfast, working } = queue()
    const cancelled = await holdfast.enqueue(send, { to: 1 }, { delay: '1h', idempotencyKey: 'one' })
    const one = [send, { to: 1 }, { delay: '1h', idempotencyKey: 'one' }] as const
    const behind = await holdfast.enqueueBatch([...payloads(250).map((payload) => [send, payload] as const), one], {
      onEnd: [report, { campaign: 7 }],
    })
    expect(await holdfast.get(behind.id)).toMatchObject({ state: 'blocked' })
    expect((await holdfast.explain(behind.id)).reasons).not.toEqual([])

    await holdfast.cancel(cancelled.id)

    expect(await working(handlers, () => behind.wait({ timeout: '30s' }))).toEqual({
      campaign: 7,
      end: { jobs: 251, succeeded: 225, dead: 25, cancelled: 1 },
    })
  })

  test('a batch without jobs has ended', async () => {
    const { holdfast, working } = queue()
    const behind = await holdfast.enqueueBatch(send, [], { onEnd: [report, { campaign: 0 }] })

    expect(await working(handlers, () => behind.wait({ timeout: '30s' }))).toMatchObject({ end: { jobs: 0 } })
  })

  test('a batch that is made again under its id is the same, and goes on where it was cut off', async () => {
    const { holdfast, working } = queue()
    const { id } = await holdfast.enqueue('other', null)
    const cut = holdfast.enqueueBatch(send, payloads(120), { id, onEnd: ['report', 1n] })
    expect(await failure(cut)).toMatchObject({ code: 'invalid_payload' })

    const make = () => holdfast.enqueueBatch(send, payloads(120), { id, onEnd: [report, { campaign: 8 }] })
    const [first, second] = [await make(), await make()]

    expect(second.id).toBe(first.id)
    expect((await holdfast.get(first.id))!.enqueuedBy).toBe(id)
    expect(await working(handlers, () => first.wait({ timeout: '30s' }))).toMatchObject({
      end: { jobs: 120, succeeded: 108, dead: 12 },
    })
  })

  test('a count that an operator cancels holds up nothing', async () => {
    const { holdfast, working } = queue()
    const behind = await holdfast.enqueueBatch([[send, { to: 1 }, { delay: '1h' }]], {
      onEnd: [report, { campaign: 9 }],
    })
    const [count] = (await holdfast.get(behind.id))!.after

    await holdfast.cancel(count!)

    expect(await working(handlers, () => behind.wait({ timeout: '30s' }))).toEqual({ campaign: 9, end: null })
  })
})

const [job, later] = [['send', null] as const, { onEnd: ['report', null] as const }]

test.each<[string, unknown, unknown]>([
  ['no list', 'send', later],
  ['a job that is none', [null], later],
  ['no job behind it', [job], {}],
  ['a job behind it without a payload', [job], { onEnd: ['report'] }],
  ['an unknown option', [job], { ...later, after: job }],
  ['a job with a transaction of its own', [['send', null, { tx: {} }]], later],
  ['a job with a name of its own', [['send', null, { child: 'a', enqueuedBy: 'b' }]], later],
  ['parents of the job behind it', [job], { onEnd: ['report', null, { after: [] }] }],
  ['an id that is none', [job], { ...later, id: 'campaign-7' }],
  ['an id and a transaction', [job], { ...later, id: '01900000-0000-7000-8000-000000000001', tx: { query() {} } }],
  ['a queue that is none', [job], { ...later, queue: 5 }],
  ['more than a million jobs', { length: 1_000_001 }, later],
])('a batch with %s is refused, and nothing is enqueued', async (_, jobs, options) => {
  const holdfast = await openHoldfast(memoryStore())
  const list =
    jobs !== null && typeof jobs === 'object' && !Array.isArray(jobs) ? Array.from(jobs as never, () => job) : jobs

  const error = (await failure(holdfast.enqueueBatch(list as [], options as never))) as { code: string }

  expect(['invalid_option', 'invalid_name']).toContain(error.code)
  expect((await holdfast.list()).jobs).toEqual([])
  await holdfast.close()
})
