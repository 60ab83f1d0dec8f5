// Secrets in payloads: masked where jobs are shown, revealed to those who may and on the record, and nowhere else.

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { HoldfastError } from '../../src/index.js'
import { ROUTES } from '../../src/server/routes.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import { systemPorts } from '../../src/system-ports.js'
import { finish } from '../client/support.js'
import { EXAMPLES, pathOf } from './examples.js'
import { TestServer, TOKEN } from './support.js'

const CANARY = 'canary-77aa-never-to-be-seen'

let server: TestServer

beforeAll(async () => {
  server = await TestServer.open({
    redact: (path, { queue }) => queue === 'medical' && path[0] === 'patient',
    metrics: { contentType: 'text/plain', render: async () => 'holdfast_jobs 1\n' },
  })
})

afterAll(() => server.close())

const payload = {
  user: { name: 'Ada', password: CANARY, apiKey: CANARY, 'api-key': CANARY },
  headers: [{ Authorization: CANARY, cookie: CANARY }],
  card_number: 4_111,
  plain: 'shown',
}

describe('a job that is shown', () => {
  test('has its secrets masked, and says where', async () => {
    const { id } = await server.holdfast.enqueue('x', payload)

    const { json, text } = await server.admin('GET', `/v1/jobs/${id}`)

    expect(json.payload).toEqual({
      user: { name: 'Ada', password: '[redacted]', apiKey: '[redacted]', 'api-key': '[redacted]' },
      headers: [{ Authorization: '[redacted]', cookie: '[redacted]' }],
      card_number: '[redacted]',
      plain: 'shown',
    })
    expect(json.redacted).toEqual([
      'payload.user.password',
      'payload.user.apiKey',
      'payload.user.api-key',
      'payload.headers.0.Authorization',
      'payload.headers.0.cookie',
      'payload.card_number',
    ])
    expect(text).not.toContain(CANARY)
  })

  test('has its result masked too', async () => {
    await server.holdfast.enqueue('x', null, { queue: 'results' })
    const id = await finish(server.store, 'results', { state: 'succeeded', result: { token: CANARY, n: 1 } })

    const { json } = await server.admin('GET', `/v1/jobs/${id}`)

    expect([json.result, json.redacted]).toEqual([{ token: '[redacted]', n: 1 }, ['result.token']])
  })

  test('shows no payload without the scope read:payload', async () => {
    const reader = await server.key(['read'])
    const { id } = await server.holdfast.enqueue('x', { plain: CANARY })

    const { json, text } = await server.as(reader, 'GET', `/v1/jobs/${id}`)

    expect([json.payload, json.redacted]).toEqual(['[redacted]', ['payload']])
    expect(text).not.toContain(CANARY)
    expect((await server.as(reader, 'GET', `/v1/jobs/${id}/payload`)).status).toBe(403)
  })

  test('cannot be filtered by payload without the scope read:payload', async () => {
    const reader = await server.key(['read', 'operate'])
    const filter = encodeURIComponent('payload.user.password:a')

    expect((await server.as(reader, 'GET', `/v1/jobs?filter=${filter}`)).status).toBe(403)
    expect((await server.as(reader, 'GET', `/v1/jobs/count?filter=${filter}`)).status).toBe(403)
    const body = { action: 'cancel', filter: 'payload.user.password:a', dryRun: true }
    expect((await server.as(reader, 'POST', '/v1/bulk', { body })).status).toBe(403)
  })

  test.each([
    ...['pwd', 'db_pwd', 'credential', 'credentials', 'private_key', 'privateKey', 'PRIVATE-KEY', 'cvv', 'cvc', 'pin'],
    ...[
      'cardPin',
      'otp',
      'otp_code',
      'auth',
      'authHeader',
      'basicAuth',
      'accessKey',
      'AWSAccessKeyId',
      'connectionString',
    ],
    ...['connection_string', 'apikey', 'x-api-key', 'userPassword', 'refreshToken', 'Set-Cookie', 'ssn', 'card', 'jwt'],
  ])('has the value of %s masked', async (name) => {
    const { id } = await server.holdfast.enqueue('x', { of: { [name]: CANARY } })

    const { json } = await server.admin('GET', `/v1/jobs/${id}`)

    expect([json.payload, json.redacted]).toEqual([{ of: { [name]: '[redacted]' } }, [`payload.of.${name}`]])
  })

  test.each([
    ...[
      'shipping',
      'spinner',
      'author',
      'authorId',
      'opinion',
      'pinned',
      'passenger',
      'compass',
      'discard',
      'wildcard',
    ],
    ...['keyboard', 'monkey', 'cardinality', 'company', 'laptop', 'expand', 'name', 'value', 'key'],
  ])('shows the value of %s', async (name) => {
    const { id } = await server.holdfast.enqueue('x', { of: { [name]: 'shown' } })

    expect((await server.admin('GET', `/v1/jobs/${id}`)).json.payload).toEqual({ of: { [name]: 'shown' } })
  })

  test.each<[string, unknown]>([
    [
      'pairs of name and value',
      {
        env: [
          { name: 'DB_PASSWORD', value: CANARY },
          { key: 'apiKey', value: CANARY },
        ],
      },
    ],
    [
      'headers as pairs',
      {
        headers: [
          ['authorization', CANARY],
          ['accept', 'text/html'],
        ],
      },
    ],
    ['JSON in a string', { body: JSON.stringify({ user: 'ada', password: CANARY }) }],
    ['JSON in JSON in a string', { body: JSON.stringify({ body: JSON.stringify([{ token: CANARY }]) }) }],
    ['a string that is the payload', JSON.stringify({ password: CANARY })],
    ['JSON that was cut off', { body: `{"password":"${CANARY}","rest":"` }],
    ['several lines of JSON', { body: `{"a":1}\n{"password":"${CANARY}"}` }],
    ['an address with a password', { url: `postgres://app:${CANARY}@db.example.com/app` }],
    ['an authorization under another name', { h: `Bearer ${CANARY}` }],
    ['a private key under another name', { pem: `-----BEGIN RSA PRIVATE KEY-----\n${CANARY}` }],
    ['JSON wrapped very often', wrap({ password: CANARY }, 8)],
  ])('has its secrets masked in %s', async (_, given) => {
    const { id } = await server.holdfast.enqueue('x', given)

    const { json, text } = await server.admin('GET', `/v1/jobs/${id}`)

    expect(text).not.toContain(CANARY)
    expect(json.redacted).not.toEqual([])
  })

  function wrap(value: unknown, times: number): unknown {
    return times === 0 ? value : { body: JSON.stringify(wrap(value, times - 1)) }
  }

  test('keeps what is around a secret in JSON in a string, and strings without one as they are', async () => {
    const plain = ' {"a": 1,  "b": [2]} '
    const { id } = await server.holdfast.enqueue('x', { body: '{"user":"ada","pwd":"x"}', plain, note: '[see "this"' })

    const { json } = await server.admin('GET', `/v1/jobs/${id}`)

    expect(json.payload).toEqual({ body: '{"user":"ada","pwd":"[redacted]"}', plain, note: '[see "this"' })
    expect(json.redacted).toEqual(['payload.body.pwd'])
  })

  test('is masked by the rules of its queue', async () => {
    const { id } = await server.holdfast.enqueue('x', { patient: { name: CANARY }, room: 4 }, { queue: 'medical' })

    const { json } = await server.admin('GET', `/v1/jobs/${id}`)

    expect([json.payload, json.redacted]).toEqual([{ patient: '[redacted]', room: 4 }, ['payload.patient']])
  })

  test('is revealed as a file, and the reveal is recorded', async () => {
    const { secret } = await server.holdfast.createKey({ name: 'ada', scopes: ['read:payload'] })
    const { id } = await server.holdfast.enqueue('x', { ...payload, html: '<script>alert(1)</script>' })

    const { headers, json } = await server.as(secret, 'GET', `/v1/jobs/${id}/payload`)

    expect(json.user.password).toBe(CANARY)
    expect(headers.get('content-type')).toBe('application/octet-stream')
    expect(headers.get('content-disposition')).toBe(`attachment; filename="job-${id}.json"`)
    const [line] = (await server.holdfast.audit({ job: id })).entries
    expect([line!.action, line!.actor]).toEqual(['reveal payload', 'key:ada'])
  })
})

test('a search for a masked value is recorded once for each guess, without the value', async () => {
  const plain = await TestServer.open()
  const { secret } = await plain.holdfast.createKey({ name: 'guesser', scopes: ['read:payload', 'operate'] })
  const count = (filter: string) => plain.as(secret, 'GET', `/v1/jobs/count?filter=${encodeURIComponent(filter)}`)
  const lines = async () =>
    (await plain.holdfast.audit({ actor: 'key:guesser' })).entries.map(({ action, details }) => [action, details])
  await plain.holdfast.enqueue('x', { user: { password: CANARY }, plain: 1 })

  await count('payload.plain:1')
  expect(await lines()).toEqual([])

  expect((await count(`payload.user.password:${CANARY}`)).json.count).toBeGreaterThan(0)
  await count(`payload.user.password:${CANARY}`)
  expect(await lines()).toEqual([['search masked', { paths: ['payload.user.password'], values: 1 }]])

  await count('payload.user.password:other,another')
  await plain.as(secret, 'GET', `/v1/jobs?filter=${encodeURIComponent('payload.headers.0.value:x')}`)
  const body = { action: 'cancel', filter: 'payload.pin:1', dryRun: true }
  await plain.as(secret, 'POST', '/v1/bulk', { body })
  expect((await lines()).slice(0, 3)).toEqual([
    ['search masked', { paths: ['payload.pin'], values: 1 }],
    ['search masked', { paths: ['payload.headers.0.value'], values: 1 }],
    ['search masked', { paths: ['payload.user.password'], values: 2 }],
  ])
  expect(JSON.stringify(await lines())).not.toContain(CANARY)
  await plain.close()
})

test("where the owner's rule masks more, every search in payloads is on the record", async () => {
  const { secret } = await server.holdfast.createKey({ name: 'nurse', scopes: ['read:payload'] })

  await server.as(secret, 'GET', `/v1/jobs/count?filter=${encodeURIComponent('payload.patient.name:Ada')}`)

  const [line] = (await server.holdfast.audit({ actor: 'key:nurse' })).entries
  expect([line?.action, line?.details]).toEqual(['search masked', { paths: ['payload.patient.name'], values: 1 }])
})

test('a canary in payloads, tokens, headers and bad bodies turns up in no list, log, metric, audit line or problem', async () => {
  const seen: string[] = []
  const secretive = { password: CANARY, nested: { token: CANARY } }
  const { id } = await server.holdfast.enqueue('x', secretive, { queue: 'canary' })
  await server.holdfast.schedule('canary', { cron: '0 0 * * *', job: 'x', payload: secretive })
  await server.admin('PATCH', `/v1/jobs/${id}`, { body: { payload: { secret: CANARY } } })
  const bad = [
    `{"type":"x","payload":"${CANARY}"`,
    `{"payload":"${CANARY}"}`,
    `{"type":"x","payload":"${CANARY}","after":["x"]}`,
    CANARY,
  ]
  for (const body of bad) seen.push((await server.admin('POST', '/v1/jobs', { body })).text)
  seen.push((await server.as(CANARY, 'GET', '/v1/me')).text)
  seen.push(
    (await server.ask('GET', `/v1/me?token=${CANARY}`, { headers: { cookie: `a=${CANARY}`, 'x-secret': CANARY } }))
      .text,
  )
  seen.push((await server.ask('POST', '/v1/session', { headers: server.sameOrigin(), body: { token: CANARY } })).text)
  for (const route of ROUTES.filter(
    // Some are streams, which do not end.
    ({ method, name }) => method === 'GET' && !['events', 'jobOutput', 'jobEvents', 'revealPayload'].includes(name),
  )) {
    const example = route.path.includes('/jobs/{id}') ? { params: { id } } : await EXAMPLES[route.name]!(server)
    seen.push((await server.admin('GET', pathOf(route.path, example))).text)
  }
  seen.push(JSON.stringify(server.events), JSON.stringify((await server.holdfast.audit({ limit: 200 })).entries))

  expect(seen.filter((text) => text.includes(CANARY))).toEqual([])
  expect(seen.filter((text) => text.includes(TOKEN))).toEqual([])
})

test('the store’s own messages stay inside', async () => {
  const store = memoryStore({ clock: systemPorts.clock })
  const fail = async () => {
    throw new HoldfastError('store_unavailable', `connect to postgres://app:${CANARY}@db failed: SELECT 1`, {
      retryable: true,
    })
  }
  const broken = await TestServer.open({}, { ...store, get: fail, overview: fail })
  try {
    const ready = await broken.ask('GET', '/readyz')
    const queues = await broken.admin('GET', '/v1/queues')

    for (const { status, json, text, headers } of [ready, queues]) {
      expect([status, json.code, headers.get('retry-after')]).toEqual([503, 'store_unavailable', '2'])
      expect(text).not.toMatch(/canary|SELECT|postgres:/)
    }
    expect((await broken.ask('GET', '/healthz')).status).toBe(200)
  } finally {
    await broken.close()
  }
})

test('an unexpected failure is a 500 without details, and is logged', async () => {
  const store = memoryStore({ clock: systemPorts.clock })
  const broken = await TestServer.open(
    {},
    {
      ...store,
      queues: async () => {
        throw new TypeError(CANARY)
      },
      overview: async () => {
        throw new TypeError('odd')
      },
    },
  )
  try {
    const { status, json } = await broken.admin('GET', '/v1/queues')

    expect([status, json.code, json.detail]).toEqual([500, 'internal', 'an internal error'])
    expect(broken.events.some((event) => event.name === 'failed' && event.error.message === 'odd')).toBe(true)
  } finally {
    await broken.close()
  }
})
