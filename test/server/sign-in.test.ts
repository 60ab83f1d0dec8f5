// Signing in: tokens that work once, cookies scripts cannot read, keys, proxies and hooks, and where to listen.

import { afterEach, expect, test } from 'vitest'
import { isHoldfastError } from '../../src/index.js'
import { createServer, type ServerOptions } from '../../src/server/index.js'
import { type Asked, TestServer, TOKEN } from './support.js'

let server: TestServer

afterEach(() => server.close())

const open = async (options: ServerOptions = {}) => {
  server = await TestServer.open(options)
  return server
}

const post = (token: string, headers: Asked['headers'] = server.sameOrigin()) =>
  server.ask('POST', '/v1/session', { headers, body: { token } })

test('a token is exchanged once, for a cookie that scripts and other sites never see', async () => {
  await open()
  const token = server.server.createToken()

  const first = await server.ask('GET', `/?token=${token}`)
  const second = await server.ask('GET', `/?token=${token}`)

  expect([first.status, first.headers.get('location')]).toEqual([303, '/'])
  expect(first.headers.get('set-cookie')).toMatch(
    /^holdfast_session_\d+=[\w-]{43}; Path=\/; Max-Age=43200; HttpOnly; SameSite=Strict$/,
  )
  expect([second.status, second.headers.get('set-cookie')]).toEqual([303, null])
  const cookie = first.headers.get('set-cookie')!.split(';')[0]!
  expect((await server.ask('GET', '/v1/me', { headers: { cookie } })).json).toMatchObject({
    name: 'admin',
    via: 'cookie',
    scopes: ['admin'],
    store: 'memory',
    readOnly: false,
  })
})

test('a token can also be pasted, and then it is used up', async () => {
  await open()
  const token = server.server.createToken()

  expect((await post(token)).status).toBe(200)
  expect((await post(token)).status).toBe(401)
})

test("another site cannot sign anybody in, and neither the server's token nor a key works in an address", async () => {
  await open()
  const token = server.server.createToken()
  const key = await server.key(['admin'])

  const foreign = await server.ask('GET', `/?token=${token}`, { headers: { 'sec-fetch-site': 'cross-site' } })
  const byKey = await server.ask('GET', `/?token=${key}`)
  const byServerToken = await server.ask('GET', `/?token=${TOKEN}`)

  for (const answered of [foreign, byKey, byServerToken]) {
    expect([answered.status, answered.headers.get('set-cookie')]).toEqual([303, null])
  }
  expect((await server.ask('GET', `/?token=${token}`)).headers.get('set-cookie')).not.toBeNull()
})

test('a token that signs in once is not a bearer token', async () => {
  await open()

  expect((await server.as(server.server.createToken(), 'GET', '/v1/me')).status).toBe(401)
})

test('a session ends when it expires and when it is signed out', async () => {
  let nowMs = 1_000_000
  await open({ session: '1h', now: () => nowMs })
  const me = async (cookie: string) => (await server.ask('GET', '/v1/me', { headers: { cookie } })).status
  const [first, second] = [await server.signIn(), await server.signIn()]

  const signedOut = await server.ask('DELETE', '/v1/session', {
    headers: { cookie: first, ...server.sameOrigin() },
    body: {},
  })

  expect(signedOut.status).toBe(204)
  expect(signedOut.headers.get('set-cookie')).toMatch(/=; .*Max-Age=0/)
  expect([await me(first), await me(second)]).toEqual([401, 200])
  nowMs += 3_600_000
  expect(await me(second)).toBe(401)
})

test('an unused token expires', async () => {
  let nowMs = 1_000_000
  await open({ session: '1h', now: () => nowMs })
  const token = server.server.createToken()
  nowMs += 3_600_000

  expect((await post(token)).status).toBe(401)
})

test('a session of an API key has its scopes and ends with it', async () => {
  await open()
  const { key, secret } = await server.holdfast.createKey({ name: 'ops', scopes: ['read'] })
  const { headers } = await post(secret)
  const cookie = headers.get('set-cookie')!.split(';')[0]!
  const me = () => server.ask('GET', '/v1/me', { headers: { cookie } })

  expect((await me()).json).toMatchObject({ name: 'ops', scopes: ['read'], via: 'cookie' })
  await server.holdfast.revokeKey(key.id)
  expect((await me()).status).toBe(401)
})

test('after fifty wrong tokens in a minute wrong ones are slowed, and the right ones pass', async () => {
  let nowMs = 1_000_000
  await open({ now: () => nowMs })
  const key = await server.key(['read'])
  for (let index = 0; index < 25; index++) {
    expect((await post(`wrong ${index}`)).status).toBe(401)
    expect((await server.as(`wrong-${index}`, 'GET', '/v1/me')).status).toBe(401)
  }

  const wrong = await post('wrong once more')

  expect([wrong.status, wrong.json.code]).toEqual([429, 'too_many_requests'])
  expect(Number(wrong.headers.get('retry-after'))).toBeGreaterThan(0)
  expect((await server.admin('GET', '/v1/me')).status).toBe(200)
  expect((await server.as(key, 'GET', '/v1/me')).status).toBe(200)
  expect((await post(TOKEN)).status).toBe(200)
  expect((await post(key)).status).toBe(200)
  expect((await post(server.server.createToken())).status).toBe(200)
  nowMs += 60_000
  expect((await post('wrong')).status).toBe(401)
})

test('wrong secrets for the id of a key do not lock its owner out', async () => {
  await open({ limits: { failedLoginsMax: 1 } })
  const key = await server.key(['read'])
  const guess = `${key.slice(0, 16)}${'A'.repeat(43)}`

  await Promise.all(Array.from({ length: 20 }, () => server.as(guess, 'GET', '/v1/me')))

  expect((await server.as(guess, 'GET', '/v1/me')).status).toBe(429)
  expect((await server.as(key, 'GET', '/v1/me')).status).toBe(200)
})

test('without a known address, wrong tokens lock no other caller out', async () => {
  await open({ limits: { failedLoginsMax: 1 } })
  const ask = (token: string) =>
    server.server.fetch(
      new Request('http://localhost/v1/me', { headers: { host: 'localhost', authorization: `Bearer ${token}` } }),
    )

  await ask('wrong')

  expect((await ask('wrong')).status).toBe(429)
  expect((await ask(TOKEN)).status).toBe(200)
})

test('too many wrong tokens do not end existing sessions', async () => {
  await open({ limits: { failedLoginsMax: 1 } })
  const cookie = await server.signIn()
  await post('wrong')

  expect((await post('wrong')).status).toBe(429)
  expect((await server.ask('GET', '/v1/me', { headers: { cookie } })).status).toBe(200)
})

test('a key that signs in a thousand times ends only its own sessions, and does not fill the audit', async () => {
  let nowMs = 1_000_000
  await open({ now: () => nowMs })
  const admin = await server.signIn()
  const reader = await server.key(['read'])
  const other = await server.key(['read'])
  const cookieOf = async (key: string) => (await post(key)).headers.get('set-cookie')!.split(';')[0]!
  const me = async (cookie: string) => (await server.ask('GET', '/v1/me', { headers: { cookie } })).status
  const bystander = await cookieOf(other)
  const first = await cookieOf(reader)
  let last = first
  for (let index = 1; index < 1_001; index++) last = await cookieOf(reader)

  expect([await me(admin), await me(bystander), await me(first), await me(last)]).toEqual([200, 200, 401, 200])
  const lines = async () => (await server.holdfast.audit({ limit: 200, action: 'sign in' })).entries
  expect((await lines()).length).toBeLessThan(20)
  nowMs += 60_000
  await cookieOf(reader)
  expect((await lines())[0]!.details).toEqual({ before: 996 })
}, 90_000)

test('authenticate identifies the caller; changes must still come from our page', async () => {
  await open({
    authenticate: (request) => {
      const name = request.headers.get('x-user')
      if (name === 'broken') throw new Error('the directory is away')
      return name === null ? null : { name, scopes: ['read', 'operate'], queues: ['mail'] }
    },
  })
  const headers = { 'x-user': 'ada' }

  expect((await server.ask('GET', '/v1/me', { headers })).json).toMatchObject({
    name: 'ada',
    via: 'hook',
    queues: ['mail'],
  })
  expect((await server.ask('POST', '/v1/queues/mail/pause', { headers, body: {} })).status).toBe(403)
  const own = { ...headers, ...server.sameOrigin() }
  expect((await server.ask('POST', '/v1/queues/mail/pause', { headers: own, body: {} })).status).toBe(200)
  expect((await server.ask('GET', '/v1/me')).status).toBe(401)
  expect((await server.ask('GET', '/v1/me', { headers: { 'x-user': 'broken' } })).status).toBe(503)
  expect((await server.holdfast.audit({ limit: 1 })).entries[0]!.actor).toBe('hook:ada')
})

const SECRET = 'what-the-proxy-shows-so-that-we-know-it'

test('a proxy’s header counts only from the listed peers, with its secret', async () => {
  const header = 'X-Forwarded-User'
  await open({ proxy: { peers: ['127.0.0.0/8'], secret: SECRET, header, scopes: ['read'] } })
  const headers = { 'x-forwarded-user': 'ada', 'x-holdfast-proxy-secret': SECRET }
  expect((await server.ask('GET', '/v1/me', { headers })).json).toMatchObject({ name: 'ada', via: 'proxy' })
  const twice = { ...headers, 'x-forwarded-user': 'ada, root' }
  expect((await server.ask('GET', '/v1/me', { headers: twice })).status).toBe(401)
  await server.close()

  await open({ proxy: { peers: ['10.0.0.7', 'fd00::/8'], secret: SECRET, header, scopes: ['admin'] } })

  expect((await server.ask('GET', '/v1/me', { headers })).status).toBe(401)
})

test("another program of the proxy's machine is not believed", async () => {
  await open({ proxy: { peers: ['127.0.0.1'], secret: SECRET, header: 'x-forwarded-user', scopes: ['admin'] } })
  const tries = [
    { 'x-forwarded-user': 'root' },
    { 'x-forwarded-user': 'root', 'x-holdfast-proxy-secret': '' },
    { 'x-forwarded-user': 'root', 'x-holdfast-proxy-secret': `${SECRET.slice(0, -1)}x` },
    { 'x-forwarded-user': 'root', 'x-holdfast-proxy-secret': `${SECRET}, ${SECRET}` },
  ]

  for (const headers of tries) expect((await server.ask('GET', '/v1/me', { headers })).status).toBe(401)
})

test('a proxy without a secret is not trusted', async () => {
  await open()
  const proxy = { peers: ['127.0.0.1'], header: 'x-forwarded-user' }

  expect(() => createServer(server.holdfast, { proxy } as never)).toThrow(/proxy\.secret must be 32 to 512/)
  expect(() => createServer(server.holdfast, { proxy: { ...proxy, secret: 'short' } })).toThrow(/proxy\.secret must be/)
})

test('behind a proxy wrong tokens are counted by the client’s address', async () => {
  const proxy = { peers: ['127.0.0.1'], secret: SECRET, header: 'x-user' }
  await open({ proxy, limits: { failedLoginsMax: 1 } })
  const from = (address: string, secret = SECRET) => ({
    ...server.sameOrigin(),
    'x-forwarded-for': `6.6.6.6, ${address}`,
    'x-holdfast-proxy-secret': secret,
  })

  expect((await post('wrong', from('10.0.0.1'))).status).toBe(401)
  expect((await post('wrong', from('10.0.0.1'))).status).toBe(429)
  expect((await post('wrong', from('10.0.0.2'))).status).toBe(401)
  // Who has not the secret speaks for itself alone.
  expect((await post('wrong', from('10.0.0.3', 'none'))).status).toBe(401)
  expect((await post('wrong', from('10.0.0.4', 'none'))).status).toBe(429)
})

test('it does not listen beyond this machine without authentication', async () => {
  await open()
  const bare = createServer(server.holdfast)
  const refusal = await bare.listen({ host: '0.0.0.0', port: 0 }).catch((error: unknown) => error)

  expect(isHoldfastError(refusal, 'invalid_option')).toBe(true)
  for (const options of [{ token: TOKEN }, { apiKeys: true }, { insecureNoAuth: true }]) {
    const chosen = createServer(server.holdfast, options)
    expect((await chosen.listen({ host: '0.0.0.0', port: 0 })).port).toBeGreaterThan(0)
    await chosen.close()
  }
})

test('by default it listens on both loopback addresses', async () => {
  await open()
  const bare = createServer(server.holdfast)

  const { url, port } = await bare.listen({ port: 0 })

  expect(url).toBe(`http://localhost:${port}`)
  expect((await fetch(`http://127.0.0.1:${port}/healthz`)).status).toBe(200)
  await bare.close()
  await expect(fetch(`http://127.0.0.1:${port}/healthz`)).rejects.toThrow()
})

test('with insecureNoAuth anyone is let in, but no other site', async () => {
  await open({ insecureNoAuth: true })

  expect((await server.ask('GET', '/v1/me')).json).toMatchObject({ via: 'open', scopes: ['admin'] })
  expect((await server.ask('POST', '/v1/jobs', { body: { type: 'x' } })).status).toBe(403)
  expect((await server.as('anything', 'POST', '/v1/jobs', { body: { type: 'x' } })).status).toBe(201)
  expect(server.events.some(({ name }) => name === 'insecure')).toBe(true)
})

test('invalid options are refused by createServer', async () => {
  await open()
  const bad: readonly ServerOptions[] = [
    { token: 'short' },
    { basePath: 'queue' },
    { basePath: '/queue/' },
    { basePath: '/../x' },
    { basePath: '//evil.test' },
    { hosts: [] },
    { hosts: ['Queue.Example.com'] },
    { hosts: ['https://queue.example.com'] },
    { proxy: { peers: ['everybody'], secret: SECRET, header: 'x' } },
    { proxy: { peers: [], secret: SECRET, header: 'x' } },
    { limits: { bodyBytesMax: 0 } },
    { tokn: TOKEN } as ServerOptions,
  ]

  for (const options of bad) expect(() => createServer(server.holdfast, options)).toThrow(/must|no option/)
})
