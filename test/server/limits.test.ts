// What is too large, too deep, too slow or too many is refused, and nothing is polluted on the way.

import { connect } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { TestServer, TOKEN } from './support.js'

let server: TestServer

beforeAll(async () => {
  server = await TestServer.open()
})

afterAll(() => server.close())

const MIB = 1024 * 1024
const jobOf = (bytes: number) => {
  const frame = JSON.stringify({ type: 'x', payload: '' })
  return JSON.stringify({ type: 'x', payload: 'a'.repeat(bytes - frame.length) })
}

test('a body of up to 1 MiB is read, one byte more is not', async () => {
  // The payload itself may be 1 MiB as well, so that the body is what is refused.
  expect((await server.admin('POST', '/v1/jobs', { body: jobOf(MIB) })).status).toBe(201)

  const answered = await server.admin('POST', '/v1/jobs', { body: jobOf(MIB + 1) })

  expect(answered.json).toMatchObject({ status: 413, code: 'body_too_large', bytesMax: MIB })
})

test('a batch may be 8 MiB', async () => {
  const batch = (bytes: number) => `{"jobs":[${jobOf(MIB / 2)}]${' '.repeat(bytes - MIB / 2 - 11)}}`

  expect((await server.admin('POST', '/v1/jobs/batch', { body: batch(8 * MIB) })).status).toBe(200)
  expect((await server.admin('POST', '/v1/jobs/batch', { body: batch(8 * MIB + 1) })).status).toBe(413)
})

test('a body without a length is cut off at the limit', async () => {
  let sent = 0
  const endless = new ReadableStream({
    pull(controller) {
      sent += 65_536
      controller.enqueue(new Uint8Array(65_536).fill(32))
    },
  })

  const answered = await fetch(`${server.listening.url}/v1/jobs`, {
    method: 'POST',
    headers: { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' },
    body: endless,
    duplex: 'half',
  } as RequestInit).catch(() => null)

  // The answer may come, or the connection may end under what is still being sent.
  expect(answered?.status ?? 413).toBe(413)
  expect(sent).toBeLessThan(64 * MIB)
})

test('JSON may be nested 64 levels deep and no deeper', async () => {
  const nested = (depth: number) => `{"type":"x","payload":${'['.repeat(depth - 1)}${']'.repeat(depth - 1)}}`

  expect((await server.admin('POST', '/v1/jobs', { body: nested(64) })).status).toBe(201)
  expect((await server.admin('POST', '/v1/jobs', { body: nested(65) })).json).toMatchObject({
    status: 400,
    code: 'invalid_json',
  })
  expect((await server.admin('POST', '/v1/jobs', { body: nested(100_000) })).status).toBe(400)
  expect((await server.admin('POST', '/v1/jobs', { body: '{"type":"x","payload":"[[[[\\"[["}' })).status).toBe(201)
})

test('headers may be 16 KiB', async () => {
  const ask = (length: number) => server.ask('GET', '/healthz', { headers: { 'x-long': 'a'.repeat(length) } })

  expect((await ask(12_000)).status).toBe(200)
  const refused = await ask(17_000)
  expect(refused.status).toBe(431)
  expect(refused.headers.get('content-security-policy')).toContain("default-src 'none'")
})

test('a compressed body is refused', async () => {
  const answered = await server.admin('POST', '/v1/jobs', { body: '{}', headers: { 'content-encoding': 'gzip' } })

  expect(answered.status).toBe(415)
})

test('a request that does not arrive in time is ended', async () => {
  const hasty = await TestServer.open({ limits: { requestTimeout: '600ms' } })
  const wait = (text: string) =>
    new Promise<string>((resolve) => {
      const socket = connect(hasty.listening.port, '127.0.0.1')
      let received = ''
      socket.on('data', (chunk) => (received += chunk))
      socket.on('error', () => {})
      socket.on('close', () => resolve(received))
      socket.write(text)
    })
  const head = `POST /v1/jobs HTTP/1.1\r\nHost: ${hasty.host}\r\nAuthorization: Bearer ${TOKEN}\r\n`

  const [headers, body] = await Promise.all([
    wait(head),
    wait(`${head}Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{`),
  ])

  expect(headers).toMatch(/^HTTP\/1\.1 408/)
  expect(body).toMatch(/^HTTP\/1\.1 408/)
  await hasty.close()
})

test('names with a meaning in JavaScript change nothing', async () => {
  const bodies = [
    '{"type":"x","__proto__":{"polluted":1}}',
    '{"__proto__":{"type":"x"}}',
    '{"type":"x","constructor":{"prototype":{"polluted":1}}}',
    '{"type":"x","retry":{"__proto__":{"polluted":1}}}',
  ]
  for (const body of bodies) expect((await server.admin('POST', '/v1/jobs', { body })).status).toBe(400)
  const paths = [
    '/v1/jobs?__proto__=x',
    '/v1/jobs?constructor=x',
    '/v1/queues/__proto__',
    '/v1/schedules/constructor/run',
  ]
  for (const path of paths) {
    const method = path.endsWith('run') ? 'POST' : 'GET'
    expect([400, 404]).toContain((await server.admin(method, path)).status)
  }

  const kept = await server.admin('POST', '/v1/jobs', { body: '{"type":"x","payload":{"__proto__":{"polluted":1}}}' })

  expect(kept.status).toBe(201)
  expect((await server.admin('GET', `/v1/jobs/${kept.json.id}`)).text).toContain(
    '"payload":{"__proto__":{"polluted":1}}',
  )
  expect(({} as Record<string, unknown>).polluted).toBeUndefined()
})

test('a parameter that is given twice, or not known, is refused', async () => {
  for (const path of [
    '/v1/jobs?limit=1&limit=2',
    '/v1/jobs?limt=1',
    '/v1/workers?x=1',
    '/v1/jobs?limit=0',
    '/v1/jobs?limit=-1',
    '/v1/jobs?limit=999',
  ]) {
    expect([path, (await server.admin('GET', path)).status]).toEqual([path, 400])
  }
})

test('an unknown path gets a 404, a known path with another method a 405', async () => {
  expect((await server.admin('GET', '/v1/nothing')).json).toMatchObject({ status: 404, code: 'not_found' })
  const answered = await server.admin('DELETE', '/v1/jobs', { body: {} })
  expect([answered.status, answered.headers.get('allow')]).toEqual([405, 'GET, POST, HEAD'])
  expect((await server.ask('HEAD', '/healthz')).status).toBe(200)
})

test('every answer has the headers that keep a page safe', async () => {
  const answers = [
    await server.ask('GET', '/'),
    await server.ask('GET', '/assets/page-1a2b.js'),
    await server.ask('GET', '/nothing.js'),
    await server.ask('GET', '/v1/jobs'),
    await server.admin('GET', '/v1/jobs'),
    await server.ask('POST', '/v1/jobs', { body: {} }),
    await server.ask('GET', '/healthz'),
    await server.ask('GET', '/?token=x'),
  ]

  for (const { headers } of answers) {
    expect(headers.get('content-security-policy')).toBe(
      "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; font-src 'self'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'",
    )
    expect(headers.get('x-content-type-options')).toBe('nosniff')
    expect(headers.get('x-frame-options')).toBe('DENY')
    expect(headers.get('referrer-policy')).toBe('no-referrer')
    expect(headers.get('cross-origin-resource-policy')).toBe('same-origin')
    expect(headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/)
    expect([...headers.keys()].filter((name) => name.startsWith('access-control'))).toEqual([])
  }
})

test('files are served by name alone', async () => {
  const paths = [
    '/assets/../../package.json',
    '/..%2f..%2fpackage.json',
    '/%2e%2e/support.ts',
    '/notes.md',
    '/assets',
    '/assets/',
    '/index.html',
  ]

  for (const path of paths) {
    const { status, text } = await server.ask('GET', path)
    expect([200, 404]).toContain(status)
    expect(text).not.toMatch(/"name": "holdfast"|of a type that is not served|import /)
  }
  expect((await server.ask('GET', '/assets/page-1a2b.js')).headers.get('cache-control')).toContain('immutable')
  expect((await server.ask('GET', '/')).headers.get('cache-control')).toBe('no-store')
})
