// Who gets in, route by route. Everything here is made from the table of routes: a new one cannot be forgotten.

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Route } from '../../src/server/route.js'
import { ROUTES } from '../../src/server/routes.js'
import { EXAMPLES, type Example, pathOf } from './examples.js'
import { type Answered, TestServer } from './support.js'

let server: TestServer
let cookie: string
let expired: string
let revoked: string

beforeAll(async () => {
  server = await TestServer.open({ limits: { failedLoginsMax: 100_000 } })
  cookie = await server.signIn()
  expired = (await server.holdfast.createKey({ name: 'old', scopes: ['admin'], expiresAt: new Date(1_000) })).secret
  const key = await server.holdfast.createKey({ name: 'gone', scopes: ['admin'] })
  await server.holdfast.revokeKey(key.key.id)
  revoked = key.secret
})

afterAll(() => server.close())

const named = (routes: readonly Route[]) => routes.map((route) => [`${route.method} ${route.path}`, route] as const)
const changes = ROUTES.filter(({ method }) => method !== 'GET')
const closed = ROUTES.filter(({ needs }) => needs !== 'anyone')

async function send(route: Route, headers: Record<string, string>, body?: string): Promise<Answered> {
  const example: Example = await EXAMPLES[route.name]!(server)
  const path = pathOf(route.path, example)
  if (route.method === 'GET') return server.ask('GET', path, { headers })
  return server.ask(route.method, path, { headers, body: body ?? JSON.stringify(example.body ?? {}) })
}

/** What the queue looks like, for seeing that nothing was changed. */
async function auditLines(): Promise<number> {
  return (await server.holdfast.audit({ limit: 1 })).entries[0]?.line ?? 0
}

async function expectRefused(
  route: Route,
  headers: Record<string, string>,
  statuses: readonly number[],
  body?: string,
) {
  // The example itself leaves lines in the audit log; what counts is that the refused request does not.
  const example: Example = await EXAMPLES[route.name]!(server)
  const before = await auditLines()
  const isLook = route.method === 'GET'
  const sent = body ?? JSON.stringify(example.body ?? {})
  const answered = await server.ask(route.method, pathOf(route.path, example), {
    headers,
    ...(isLook ? {} : { body: sent }),
  })

  expect(statuses).toContain(answered.status)
  expect(answered.headers.get('content-type')).toBe('application/problem+json')
  expect(answered.headers.get('set-cookie')).toBeNull()
  expect(await auditLines()).toBe(before)
}

describe('without an identified caller', () => {
  describe.each(named(closed))('%s', (_, route) => {
    const ours = () => server.sameOrigin()

    test('refuses a request without a token', () => expectRefused(route, ours(), [401]))

    test('refuses a wrong token', async () => {
      await expectRefused(route, { authorization: 'Bearer wrong' }, [401])
      await expectRefused(route, { authorization: `Bearer hf_0123456789ab_${'A'.repeat(43)}` }, [401])
      await expectRefused(route, { authorization: 'Basic YWRtaW46YWRtaW4=' }, [401, 403])
    })

    test('refuses an expired token', () => expectRefused(route, { authorization: `Bearer ${expired}` }, [401]))

    test('refuses a revoked token', () => expectRefused(route, { authorization: `Bearer ${revoked}` }, [401]))

    test('refuses an unknown cookie', () =>
      expectRefused(route, { ...ours(), cookie: `${cookie.split('=')[0]}=${'A'.repeat(43)}` }, [401]))

    test('refuses a wrong token even with a valid cookie', () =>
      expectRefused(route, { ...ours(), cookie, authorization: 'Bearer wrong' }, [401]))
  })
})

describe('a browser that another site has sent', () => {
  describe.each(named(changes))('%s', (_, route) => {
    const origin = { 'sec-fetch-site': 'same-origin' }

    test.each(['cross-site', 'same-site', 'none', 'nonsense'])('is refused with Sec-Fetch-Site: %s', async (site) => {
      await expectRefused(route, { cookie, 'sec-fetch-site': site }, [403])
      await expectRefused(route, { cookie, 'sec-fetch-site': site, origin: server.origin }, [403])
    })

    test.each(['http://evil.test', 'null', 'http://localhost', 'file://'])(
      'is refused with Origin: %s',
      async (foreign) => {
        await expectRefused(route, { cookie, origin: foreign }, [403])
        await expectRefused(route, { cookie, ...origin, origin: foreign }, [403])
      },
    )

    test('is refused when no header tells its origin', () => expectRefused(route, { cookie }, [403]))

    test.each([
      'text/plain',
      'application/x-www-form-urlencoded',
      'multipart/form-data; boundary=x',
      'application/json; charset=latin1',
      'application/jsonp',
      'text/json',
      '',
    ])('is refused with Content-Type: %s', (type) =>
      expectRefused(route, { cookie, ...server.sameOrigin(), 'content-type': type }, [415]),
    )
  })

  test.each(['DELETE', 'PUT', 'PATCH', 'POST', 'PURGE', 'PROPFIND'])(
    'is refused with %s on any path, also one that does not exist',
    async (method) => {
      for (const path of ['/', '/v1/nothing', '/stats', '/v1/jobs', '/assets/x.js']) {
        expect((await server.ask(method, path, { headers: { cookie, origin: 'http://evil.test' } })).status).toBe(403)
      }
    },
  )

  test('is answered without CORS headers', async () => {
    const answered = await server.ask('OPTIONS', '/v1/jobs', {
      headers: { origin: 'http://evil.test', 'access-control-request-method': 'POST' },
    })

    expect(answered.status).toBe(405)
    expect([...answered.headers.keys()].filter((name) => name.startsWith('access-control'))).toEqual([])
  })
})

describe('an identified caller', () => {
  const served = changes.filter(({ name }) => name !== 'signOut')

  test.each(named(served))('%s serves our own page', async (_, route) => {
    const { status, text } = await send(route, { cookie, ...server.sameOrigin() })

    expect([200, 201, 202, 204], text).toContain(status)
  })

  test('may leave out body and content type with a token', async () => {
    const { id } = await server.holdfast.enqueue('x')

    expect((await server.admin('POST', `/v1/jobs/${id}/cancel`)).status).toBe(200)
  })
})

test('a read-only server refuses every change', async () => {
  const looking = await TestServer.open({ readOnly: true })
  try {
    for (const route of changes.filter(({ path }) => path !== '/v1/session')) {
      const example = await EXAMPLES[route.name]!(looking)
      const answered = await looking.admin(route.method, pathOf(route.path, example), { body: example.body ?? {} })

      expect([route.path, answered.status, answered.json.code]).toEqual([route.path, 403, 'read_only'])
    }
  } finally {
    await looking.close()
  }
})
