// Events: one poller for all who follow, none without them, a bound on how many, and an end for those who lost their right.

import { afterEach, expect, test } from 'vitest'
import type { Overview } from '../../src/core/operating.js'
import type { Store } from '../../src/core/store.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import { systemPorts } from '../../src/system-ports.js'
import { TestServer, TOKEN } from './support.js'

let server: TestServer
const endings: AbortController[] = []

afterEach(async () => {
  for (const ending of endings.splice(0)) ending.abort()
  await server.close()
})

interface Following {
  readonly response: Response
  until(text: string): Promise<string>
  leave(): void
}

async function follow(headers: Record<string, string> = { authorization: `Bearer ${TOKEN}` }): Promise<Following> {
  const ending = new AbortController()
  endings.push(ending)
  const response = await fetch(`${server.listening.url}/v1/events`, { headers, signal: ending.signal })
  const reader = response.body!.getReader()
  let text = ''
  return {
    response,
    until: async (wanted) => {
      while (!text.includes(wanted)) {
        const { done, value } = await reader.read()
        if (done) throw new Error(`the stream ended before ${wanted}`)
        text += Buffer.from(value).toString()
      }
      const seen = text
      text = ''
      return seen
    },
    leave: () => ending.abort(),
  }
}

/** Resolves when a condition holds. The server gives no signal when it has noticed a closed socket. */
async function eventually(holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await new Promise((resolve) => setTimeout(resolve, 10))
}

function counting(store: Store): { readonly store: Store; readonly calls: { overview: number } } {
  const calls = { overview: 0 }
  const overview = async (): Promise<Overview> => {
    calls.overview++
    return store.overview()
  }
  return { store: { ...store, overview }, calls }
}

test('a follower gets the queues immediately and again when they change', async () => {
  server = await TestServer.open()
  await server.holdfast.enqueue('x', null, { queue: 'mail' })
  const following = await follow()
  const first = await following.until('event: overview\n')
  await following.until('\n\n')

  await server.holdfast.enqueue('x', null, { queue: 'mail' })
  const second = await following.until('"ready":2')

  expect(first).toMatch(/^retry: 3000\n\n: connected\n\n/)
  expect(second).toMatch(/id: \d+\nevent: overview\ndata: \{"queues":\[\{"name":"mail"/)
})

test('followers share one poller, and without followers nothing is polled', async () => {
  const { store, calls } = counting(memoryStore({ clock: systemPorts.clock }))
  server = await TestServer.open({}, store)

  const all = await Promise.all(Array.from({ length: 20 }, () => follow()))
  await Promise.all(all.map((following) => following.until('event: overview')))

  // One for the overview, one for the warnings.
  expect(calls.overview).toBeLessThanOrEqual(4)
  for (const following of all) following.leave()
  await eventually(async () => (await server.admin('GET', '/v1/me')).status === 200)
})

test('who begins to follow is told to read what may have changed before, and afterwards of changes only', async () => {
  server = await TestServer.open()
  const first = await follow()
  await first.until('event: limits')

  const second = await follow()

  let told = ''
  const isTold = (name: string) => told.includes(`event: ${name}\n`)
  while (!['warning', 'bulk', 'limits'].every(isTold)) told += await second.until('\n\n')
  await server.holdfast.setLimit('bank', { concurrency: 2 })
  // The first was not told when the second was.
  expect((await first.until('event: limits')).match(/event: limits/g)).toHaveLength(1)
}, 30_000)

test('the fifty-first is refused until another has left', async () => {
  server = await TestServer.open({ limits: { streamsMax: 50, streamsPerKeyMax: 60, streamsPerAddressMax: 60 } })
  const all = await Promise.all(Array.from({ length: 50 }, () => follow()))

  const refused = await server.admin('GET', '/v1/events')

  expect([refused.status, refused.json.code, refused.headers.get('retry-after')]).toEqual([
    503,
    'too_many_requests',
    '10',
  ])
  all[0]!.leave()
  const isLetIn = async () => {
    const following = await follow()
    const { status } = following.response
    if (status !== 200) following.leave()
    return status === 200
  }
  await eventually(isLetIn)
})

test('a key for some queues gets events of those only', async () => {
  server = await TestServer.open()
  await server.holdfast.enqueue('x', null, { queue: 'mine' })
  await server.holdfast.enqueue('x', null, { queue: 'theirs' })
  const key = await server.key(['read'], ['mine'])

  const following = await follow({ authorization: `Bearer ${key}` })
  const seen = (await following.until('event: overview')) + (await following.until('"now"'))

  expect(seen).toContain('"mine"')
  expect(seen).not.toContain('"theirs"')
})

test.each([false, true])(
  'a revoked key loses its stream (its address is being slowed: %s)',
  async (isSlowed) => {
    server = await TestServer.open({ limits: { failedLoginsMax: 1 } })
    const { key, secret } = await server.holdfast.createKey({ name: 'gone', scopes: ['read'] })
    const following = await follow({ authorization: `Bearer ${secret}` })
    await following.until('connected')
    if (isSlowed) for (let index = 0; index < 3; index++) await server.as('wrong', 'GET', '/v1/me')
    await server.holdfast.revokeKey(key.id)

    await expect(following.until('something that never comes')).rejects.toThrow('the stream ended')
  },
  15_000,
)

test('a stream whose rights cannot be checked for too long ends', async () => {
  let isAway = false
  let nowMs = 1_000_000
  server = await TestServer.open({
    authenticate: () => {
      if (isAway) throw new Error('the directory is away')
      return { name: 'ada', scopes: ['read'] }
    },
    now: () => nowMs,
  })
  const following = await follow({})
  await following.until('connected')
  isAway = true
  nowMs += 60_000

  await expect(following.until('something that never comes')).rejects.toThrow('the stream ended')
}, 15_000)

test('one key cannot use up all streams', async () => {
  server = await TestServer.open({ limits: { streamsMax: 10, streamsPerKeyMax: 4 } })
  const [greedy, other] = [await server.key(['read']), await server.key(['read'])]
  for (let index = 0; index < 4; index++) await follow({ authorization: `Bearer ${greedy}` })

  const refused = await server.as(greedy, 'GET', '/v1/events')

  expect([refused.status, refused.json.code]).toEqual([429, 'too_many_requests'])
  expect(refused.headers.get('retry-after')).toBe('10')
  expect((await follow({ authorization: `Bearer ${other}` })).response.status).toBe(200)
})

test('one address cannot use up all streams, whatever keys it has', async () => {
  const secret = 'what-the-proxy-shows-so-that-we-know-it'
  server = await TestServer.open({
    limits: { streamsMax: 10, streamsPerKeyMax: 4, streamsPerAddressMax: 6 },
    proxy: { peers: ['127.0.0.1'], header: 'x-user', secret },
  })
  const ask = async (address: string, key: string) =>
    follow({
      authorization: `Bearer ${key}`,
      'x-forwarded-for': address,
      'x-holdfast-proxy-secret': secret,
    })
  const [one, two] = [await server.key(['read']), await server.key(['read'])]
  for (let index = 0; index < 3; index++) {
    expect((await ask('10.0.0.1', one)).response.status).toBe(200)
    expect((await ask('10.0.0.1', two)).response.status).toBe(200)
  }

  expect((await ask('10.0.0.1', one)).response.status).toBe(429)
  expect((await ask('10.0.0.2', one)).response.status).toBe(200)
})

test('a HEAD request opens no stream', async () => {
  server = await TestServer.open({ limits: { streamsMax: 1 } })
  for (let index = 0; index < 3; index++) expect((await server.admin('HEAD', '/v1/events')).status).toBe(200)

  expect((await follow()).response.status).toBe(200)
})

test('the streams end when the server closes', async () => {
  server = await TestServer.open()
  const following = await follow()
  await following.until('connected')

  await server.server.close()

  await expect(following.until('something that never comes')).rejects.toThrow()
})

test('a follower receives that a limit was set or a breaker moved; one limited to some queues does not', async () => {
  server = await TestServer.open()
  await server.holdfast.setLimit('bank', { breaker: {} })
  const key = await server.key(['read'], ['mail'])
  const following = await follow()
  const limited = await follow({ authorization: `Bearer ${key}` })
  await following.until('event: limits\ndata: {"open":0}')

  await server.holdfast.openBreaker('bank')
  await following.until('event: limits\ndata: {"open":1}')
  await server.holdfast.enqueue('x', null, { queue: 'mail' })

  expect(await limited.until('"ready":1')).not.toContain('limits\ndata')
})
