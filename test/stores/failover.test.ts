// Roles of servers change under an open store: a primary is demoted, another one is promoted, and sockets may outlive both.

import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { FaultProxy } from '../../lab/chaos/proxy.js'
import { PostgresPair } from '../../lab/servers/standby.js'
import type { Store } from '../../src/core/store.js'
import { connect, type Holdfast } from '../../src/index.js'
import { postgresStore } from '../../src/stores/postgres/index.js'

let pair: PostgresPair
let proxy: FaultProxy

beforeEach(async () => {
  pair = await PostgresPair.open({ settings: { fsync: 'off' } })
  proxy = await FaultProxy.open(pair.primary.port)
}, 60_000)

afterEach(async () => {
  await proxy.close()
  await pair.close()
}, 60_000)

async function ask(url: string, text: string): Promise<unknown> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query({ text, rowMode: 'array' })).rows[0]?.[0]
  } finally {
    await client.end()
  }
}

/** Wakes a queue once more and returns what was received so far. */
function wakeAgain(store: Store, queue: string, received: readonly string[]): readonly string[] {
  store.wake([queue])
  return received
}

const LISTENERS = "SELECT count(*)::int FROM pg_stat_activity WHERE application_name = 'holdfast receive wake-ups'"

// F42 of docs/findings/chaos.md.
describe('a demoted primary', () => {
  test('is asked to LISTEN now and then, and the promoted one once', async () => {
    let listens = 0
    void proxy.loseAnswerTo(({ type, text }) => {
      if (type === 'Q' && text.startsWith('LISTEN')) listens++
      return false
    })
    const store = await postgresStore(proxy.url)
    const received: string[] = []
    store.listen({ ready: (queue) => received.push(queue) })
    await expect.poll(() => listens).toBe(1)

    await pair.switchOver()
    await sleep(4_000)
    const asked = listens
    proxy.retarget(pair.primary.port)
    proxy.cutAll()
    listens = 0
    await expect.poll(() => ask(pair.primary.url, LISTENERS), { timeout: 20_000 }).toBe(1)
    const peer = await postgresStore(pair.primary.url)
    await expect.poll(() => wakeAgain(peer, 'email', received), { timeout: 5_000 }).toContain('email')
    await sleep(1_000)

    expect(asked).toBeLessThan(15)
    expect(listens).toBe(1)
    expect(await ask(pair.primary.url, LISTENERS)).toBe(1)
    await Promise.all([store.close(), peer.close()])
  }, 120_000)
})

// F43 of docs/findings/chaos.md.
describe('a switch of roles that keeps sockets open', () => {
  let holdfast: Holdfast

  beforeEach(async () => {
    holdfast = await connect(proxy.url, { upkeep: false })
    await holdfast.enqueue('work', { before: true })
    await pair.caughtUp()
  })
  afterEach(() => holdfast.close())

  /** The address leads to the other server from now on, which takes writes; the old one takes none, and ends no connection. */
  async function flip(): Promise<void> {
    const old = pair.primary
    await pair.promote()
    proxy.retarget(pair.primary.port)
    await pair.refuseWrites(old)
  }

  test('takes every connection to the new primary with the first refused write', async () => {
    const received: string[] = []
    const store = await postgresStore(proxy.url)
    store.listen({ ready: (queue) => received.push(queue) })
    await expect.poll(() => ask(pair.primary.url, LISTENERS)).toBe(1)
    await store.pause('other', 'test')
    await store.list({ filter: {}, limit: 10, before: null })
    const old = pair.primary
    await flip()

    // The refusal is this call's to repeat.
    await expect(store.pause('other', 'test')).rejects.toMatchObject({ code: 'store_read_only', retryable: true })
    await store.pause('other', 'test')
    const { id } = await holdfast.enqueue('work', { after: true })
    const seen = await store.get(id)

    expect(seen?.id).toBe(id)
    await expect.poll(() => ask(pair.primary.url, LISTENERS), { timeout: 5_000 }).toBe(1)
    const peer = await postgresStore(pair.primary.url)
    await expect.poll(() => wakeAgain(peer, 'email', received), { timeout: 5_000 }).toContain('email')
    const receivedByPeer: string[] = []
    peer.listen({ ready: (queue) => receivedByPeer.push(queue) })
    await expect.poll(() => wakeAgain(store, 'sms', receivedByPeer), { timeout: 5_000 }).toContain('sms')
    const left = "SELECT count(*)::int FROM pg_stat_activity WHERE application_name LIKE 'holdfast%'"
    expect(await ask(old.url, left)).toBeLessThanOrEqual(2)
    await Promise.all([store.close(), peer.close()])
  }, 120_000)

  test('is noticed by a process that only looks', async () => {
    const viewer = await connect(proxy.url, { upkeep: false })
    expect((await viewer.list({})).jobs).toHaveLength(1)
    await flip()
    const producer = await connect(pair.primary.url, { upkeep: false })
    await producer.enqueue('work', { after: true })

    await expect.poll(async () => (await viewer.list({})).jobs.length, { timeout: 20_000 }).toBe(2)

    await Promise.all([viewer.close(), producer.close()])
  }, 120_000)
})
