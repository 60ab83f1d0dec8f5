// Sealed payloads: stored sealed, run opened, with keys that change, and what happens without a key.

import { randomBytes } from 'node:crypto'
import { afterAll, describe, expect, test } from 'vitest'
import type { Store } from '../../src/core/store.js'
import { aes256gcm, defineJob, gzip, type Holdfast, openHoldfast, type PayloadCodec } from '../../src/index.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { dropSchema, testServerUrl } from '../support/postgres.js'
import { failure } from './support.js'

const schema = `codec_${process.pid}`
const [first, second] = [randomBytes(32), randomBytes(32)]
const KEYS_1 = aes256gcm({ keys: { one: first } })
const KEYS_2 = aes256gcm({ keys: { one: first, two: second.toString('base64') }, use: 'two' })
const SECRET = 'the number of the card'
const charge = defineJob<{ card: string }, string>('charge')

const STORES: Readonly<Record<string, () => Promise<Store>>> = {
  memory: async () => memoryStore(),
  PostgreSQL: () => postgresStore(testServerUrl(), { schema }),
}

afterAll(() => dropSchema(testServerUrl(), schema))

let queues = 0

/** Two processes on one store, with codecs of their own. */
async function open(
  openStore: () => Promise<Store>,
  codecs: readonly (PayloadCodec | readonly PayloadCodec[] | null)[],
): Promise<{ holdfasts: Holdfast[]; queue: string; close: () => Promise<void> }> {
  const store = await openStore()
  const shared: Store = { ...store, close: async () => {} }
  const holdfasts = await Promise.all(codecs.map((codec) => openHoldfast(shared, { codec, upkeep: { hold: 0 } })))
  const close = async () => {
    await Promise.all(holdfasts.map((holdfast) => holdfast.close()))
    await store.close()
  }
  return { holdfasts, queue: `sealed-${++queues}`, close }
}

async function work(holdfast: Holdfast, queue: string, seen: unknown[] = []): Promise<void> {
  const handler = charge.handle((payload) => {
    seen.push(payload)
    return `charged ${payload.card}`
  })
  await holdfast.worker({ queues: [queue], handlers: [handler] }).start()
}

describe.each(Object.entries(STORES))('a codec on %s', (_, openStore) => {
  test('the store keeps what is sealed, and the handler gets what was enqueued', async () => {
    const { holdfasts, queue, close } = await open(openStore, [[gzip({ fromBytes: 0 }), KEYS_1]])
    const [holdfast] = holdfasts as [Holdfast]
    const card = SECRET.repeat(20)
    const later = await holdfast.enqueue(charge, { card }, { queue, delay: '1h' })
    await holdfast.update(later.id, { payload: { card: `new ${card}` } })
    const looked = (await holdfast.get(later.id))!
    await holdfast.update(later.id, { runAt: null })

    const seen: unknown[] = []
    await work(holdfast, queue, seen)
    const { id } = await holdfast.enqueue(charge, { card }, { queue })

    expect(await holdfast.wait(id)).toBe(`charged ${card}`)
    expect(await later.wait()).toBe(`charged new ${card}`)
    expect(seen).toContainEqual({ card })
    expect(looked.payload).toEqual({ $sealed: ['gzip', 'aes-256-gcm:one'], data: expect.any(String) })
    expect(JSON.stringify(await holdfast.list({ queue, state: 'succeeded' }))).not.toContain('number of the card')
    await close()
  })

  test('a key is replaced: jobs of both keys run, and new ones are sealed with the new key', async () => {
    const { holdfasts, queue, close } = await open(openStore, [KEYS_1, KEYS_2])
    const [old, next] = holdfasts as [Holdfast, Holdfast]
    const before = await old.enqueue(charge, { card: 'a' }, { queue })
    const after = await next.enqueue(charge, { card: 'b' }, { queue })
    const sealed = (await next.get(after.id))!.payload

    await work(next, queue)

    expect([await before.wait(), await after.wait()]).toEqual(['charged a', 'charged b'])
    expect(sealed).toMatchObject({ $sealed: ['aes-256-gcm:two'] })
    await close()
  })

  test('a worker without the key, or without any codec, gives the job back with its attempt, and one that has it runs it', async () => {
    const { holdfasts, queue, close } = await open(openStore, [KEYS_2, KEYS_1, null])
    const [able, without, plain] = holdfasts as [Holdfast, Holdfast, Holdfast]
    const said: string[] = []
    without.on('store.failed', ({ during, error }) => {
      if (during === 'open payload') said.push(error.message)
    })
    const ids: string[] = []
    for (const holdfast of [without, plain]) {
      const { id } = await able.enqueue(charge, { card: 'c' }, { queue })
      ids.push(id)
      const seen: unknown[] = []
      await work(holdfast, queue, seen)
      await expect.poll(async () => (await able.get(id))?.state, { timeout: 10_000 }).toBe('scheduled')

      expect(await able.get(id)).toMatchObject({ attempt: 0, crashes: 0 })
      expect(seen).toEqual([])
      await Promise.all(holdfast.localWorkers.map((worker) => worker.stop()))
    }
    for (const id of ids) await able.update(id, { runAt: null })
    await work(able, queue)
    expect(await Promise.all(ids.map((id) => able.wait(id)))).toEqual(['charged c', 'charged c'])

    expect(said).toEqual([
      expect.stringMatching(
        /sealed with the key "two" of "aes-256-gcm", which this process does not have: it waits for/,
      ),
    ])
    await close()
  })

  test('a payload that was changed is dead: invalid, and says why', async () => {
    const { holdfasts, queue, close } = await open(openStore, [KEYS_1, null])
    const [holdfast, forger] = holdfasts as [Holdfast, Holdfast]
    const { id } = await holdfast.enqueue(charge, { card: 'd' }, { queue, delay: '1h' })
    const sealed = (await holdfast.get(id))!.payload as { $sealed: string[]; data: string }
    const data = Buffer.from(sealed.data, 'base64')
    data[data.length - 1]! ^= 1
    await forger.update(id, { payload: { ...sealed, data: data.toString('base64') }, runAt: null })

    await work(holdfast, queue)
    const error = await failure(holdfast.wait(id))

    expect(error.code).toBe('job_dead')
    expect(await holdfast.get(id)).toMatchObject({ state: 'dead', reason: 'invalid', attempt: 1 })
    expect((await holdfast.get(id))?.error?.message).toMatch(/does not open with the key "one"/)
    await close()
  })

  test('the jobs of a schedule are sealed as well', async () => {
    const { holdfasts, queue, close } = await open(openStore, [KEYS_1])
    const [holdfast] = holdfasts as [Holdfast]
    await work(holdfast, queue)

    await holdfast.schedule(queue, { every: '1s', job: charge, payload: { card: 'e' }, queue })

    const finished = () => holdfast.list({ queue, state: 'succeeded' })
    await expect.poll(async () => (await finished()).jobs.length, { timeout: 10_000 }).toBeGreaterThan(0)
    const job = await holdfast.get((await finished()).jobs[0]!.id)
    expect(job).toMatchObject({ result: 'charged e', payload: { $sealed: ['aes-256-gcm:one'] } })
    await holdfast.unschedule(queue)
    await close()
  })
})

describe('the shipped codecs', () => {
  const cases: [name: string, make: () => unknown, message: RegExp][] = [
    ['no keys', () => aes256gcm({ keys: {} }), /keys must be an object with 1 to 100 keys/],
    ['a short key', () => aes256gcm({ keys: { a: randomBytes(16) } }), /key "a" must be 32 bytes.* got 16 bytes/],
    ['a key that is text but no base64', () => aes256gcm({ keys: { a: 'hunter2' } }), /key "a" must be 32 bytes/],
    ['a name with a colon', () => aes256gcm({ keys: { 'a:b': first } }), /the name of a key/],
    ['two keys and no choice', () => aes256gcm({ keys: { a: first, b: second } }), /needs use: one of a, b/],
    [
      'a choice that is no key',
      () => aes256gcm({ keys: { a: first }, use: 'b' }),
      /use must be one of its keys \(a\), got "b"/,
    ],
    ['an unknown option', () => gzip({ level: 9 } as never), /gzip has no option "level"/],
    ['a size below nothing', () => gzip({ fromBytes: -1 }), /fromBytes must be a whole number/],
  ]
  test.each(cases)('refuse %s, and show no key', (_, make, message) => {
    expect(make).toThrow(message)
    expect(make).not.toThrow(/hunter2/)
  })

  test.each([
    ['a word', 'aes'],
    ['no functions', { name: 'x' }],
    ['twice the same', [KEYS_1, KEYS_2]],
    ['an empty list', []],
  ])('a codec that is %s is refused', async (_, codec) => {
    const error = await failure(openHoldfast(memoryStore(), { codec: codec as never }))

    expect(error).toMatchObject({ code: 'invalid_option' })
    expect(error.message).toMatch(/codec must be one or up to 4 codecs/)
  })

  test('small payloads are not compressed, and ones that would grow neither', async () => {
    const random = randomBytes(4_000).toString('base64')

    expect(await gzip().seal(Buffer.from('"small"'))).toBeNull()
    expect(await gzip().seal(Buffer.from(JSON.stringify(random)))).toBeNull()
    expect(await gzip().seal(Buffer.alloc(4_000))).toMatchObject({ key: null })
  })
})
