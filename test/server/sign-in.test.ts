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

test('a token that signs in once is no bearer', async () => {
  await open()

  expect((await server.as(server.server.createToken(), 'GET', '/v1/me')).status).toBe(401)
})

test('a session ends when its time is over, and when it is signed out', async () => {
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

test('a token nobody used runs out', async () => {
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

test('after fifty wrong tokens in a minute there is no trying', async () => {
  let nowMs = 1_000_000
  await open({ now: () => nowMs })
  for (let index = 0; index < 25; index++) {
    expect((await post(`wrong ${index}`)).status).toBe(401)
    expect((await server.as(`wrong-${index}`, 'GET', '/v1/me')).status).toBe(401)
  }

  const answered = await post(TOKEN)

  expect([answered.status, answered.json.code]).toEqual([429, 'too_many_requests'])
  expect(Number(answered.headers.get('retry-after'))).toBeGreaterThan(0)
  expect((await server.admin('GET', '/v1/me')).status).toBe(429)
  nowMs += 60_000
  expect((await post(TOKEN)).status).toBe(200)
})

test('too many wrong tokens do not sign out those who are in', async () => {
  await open({ limits: { failedLoginsMax: 1 } })
  const cookie = await server.signIn()
  await post('wrong')

  expect((await post('wrong')).status).toBe(429)
  expect((await server.ask('GET', '/v1/me', { headers: { cookie } })).status).toBe(200)
})

test('a hook says who asks; its changes must come from our page as well', async () => {
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

test('a header of a proxy counts from the peers that are listed, and from nobody else', async () => {
  await open({ proxy: { peers: ['127.0.0.0/8'], header: 'X-Forwarded-User', scopes: ['read'] } })
  const headers = { 'x-forwarded-user': 'ada' }
  expect((await server.ask('GET', '/v1/me', { headers })).json).toMatchObject({ name: 'ada', via: 'proxy' })
  expect((await server.ask('GET', '/v1/me', { headers: { 'x-forwarded-user': 'ada, root' } })).status).toBe(401)
  await server.close()

  await open({ proxy: { peers: ['10.0.0.7', 'fd00::/8'], header: 'x-forwarded-user', scopes: ['admin'] } })

  expect((await server.ask('GET', '/v1/me', { headers })).status).toBe(401)
})

test('behind a proxy wrong tokens are counted for the one it speaks for', async () => {
  await open({ proxy: { peers: ['127.0.0.1'], header: 'x-user' }, limits: { failedLoginsMax: 1 } })
  const from = (address: string) => ({ ...server.sameOrigin(), 'x-forwarded-for': `6.6.6.6, ${address}` })

  expect((await post('wrong', from('10.0.0.1'))).status).toBe(401)
  expect((await post('wrong', from('10.0.0.1'))).status).toBe(429)
  expect((await post(TOKEN, from('10.0.0.2'))).status).toBe(200)
})

test('it does not listen beyond this machine before it knows how to tell who asks', async () => {
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

test('without any check everybody is let in, and other sites still are not', async () => {
  await open({ insecureNoAuth: true })

  expect((await server.ask('GET', '/v1/me')).json).toMatchObject({ via: 'open', scopes: ['admin'] })
  expect((await server.ask('POST', '/v1/jobs', { body: { type: 'x' } })).status).toBe(403)
  expect((await server.as('anything', 'POST', '/v1/jobs', { body: { type: 'x' } })).status).toBe(201)
  expect(server.events.some(({ name }) => name === 'insecure')).toBe(true)
})

test('options that make no sense are refused when they are given', async () => {
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
    { proxy: { peers: ['everybody'], header: 'x' } },
    { proxy: { peers: [], header: 'x' } },
    { limits: { bodyBytesMax: 0 } },
    { tokn: TOKEN } as ServerOptions,
  ]

  for (const options of bad) expect(() => createServer(server.holdfast, options)).toThrow(/must|no option/)
})
