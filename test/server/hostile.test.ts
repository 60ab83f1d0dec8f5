// Twenty thousand requests that are malformed, oversized, slow or cut off, against the built server in a process of its
// own: it goes on, answers nothing with 5xx but 503, and its memory stays where it was.

import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { seededRandom } from '../../src/testing/seeded-random.js'
import { TOKEN } from './support.js'

const REQUESTS = 20_000
const AT_ONCE = 40
const CANARY = 'canary-5f1d-never-to-be-seen'

let child: ChildProcess
let port: number
let output = ''
const failures: string[] = []
const random = seededRandom(7)
const pick = <T>(list: readonly T[]): T => list[Math.floor(random.float() * list.length)]!

beforeAll(async () => {
  const options = { token: TOKEN, limits: { requestTimeout: 1_500 } }
  child = fork(join(import.meta.dirname, '../fixtures/server.mjs'), [JSON.stringify(options)], {
    silent: true,
    execArgv: ['--expose-gc'],
  })
  for (const stream of [child.stdout, child.stderr]) stream!.on('data', (chunk) => (output += chunk))
  child.on('message', (message: { failed?: string }) => {
    if (typeof message.failed === 'string') failures.push(message.failed)
  })
  const died = once(child, 'exit').then(() => {
    throw new Error(`the server did not start; is dist/ built? ${output}`)
  })
  port = ((await Promise.race([once(child, 'message'), died])) as [{ port: number }])[0].port
  died.catch(() => {})
})

afterAll(() => {
  if (child.connected) child.disconnect()
})

/** Sends bytes, some of them later, and gives the statuses of what came back. */
function send(chunks: readonly (string | Buffer)[], { cutAfter = false } = {}): Promise<readonly number[]> {
  return new Promise((resolve) => {
    const socket: Socket = connect(port, '127.0.0.1')
    let received = ''
    socket.on('data', (chunk) => {
      if (received.length < 65_536) received += chunk.toString('latin1')
    })
    socket.on('error', () => {})
    socket.on('close', () =>
      resolve([...received.matchAll(/^HTTP\/1\.1 (\d{3})/gm)].map(([, status]) => Number(status))),
    )
    socket.setTimeout(10_000, () => socket.destroy())
    for (const chunk of chunks) socket.write(chunk)
    if (cutAfter) setImmediate(() => socket.destroy())
  })
}

const head = (method: string, path: string, headers: readonly string[] = []) =>
  [`${method} ${path} HTTP/1.1`, `Host: 127.0.0.1:${port}`, 'Connection: close', ...headers, '', ''].join('\r\n')
const AUTHORIZED = [`Authorization: Bearer ${TOKEN}`, 'Content-Type: application/json']
const withBody = (path: string, body: string, method = 'POST') =>
  head(method, path, [...AUTHORIZED, `Content-Length: ${Buffer.byteLength(body)}`]) + body

const noise = (length: number) => {
  const bytes = Buffer.alloc(length)
  random.fill(bytes)
  return bytes
}

const PATHS = [
  '/',
  '/v1/jobs',
  '/v1/jobs/batch',
  '/v1/jobs/x',
  '/v1/bulk',
  '/v1/events',
  '/stats',
  '/%',
  '/%00',
  '/v1/jobs/%ff',
  '/..%2f..%2fetc/passwd',
  '/assets/../../package.json',
  '/v1/queues/%252e%252e',
  '//x',
  '/v1/jobs?limit=1e9',
  '/v1/jobs?filter=%22',
  '/v1/series?since=9999d&step=1ms',
  '/v1/jobs?cursor=x',
  '/v1/audit?before=-1',
  '/v1/schedules/__proto__',
  '/v1/jobs?__proto__=1',
  '/v1/jobs/count?max=0',
]
const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS', 'PURGE', 'TRACE']
const BODIES = [
  '',
  '{',
  '[]',
  'null',
  '"x"',
  '{"type":1}',
  '{"type":""}',
  `{"type":"${'x'.repeat(300)}"}`,
  '{"type":"x","delay":"-1s"}',
  '{"type":"x","__proto__":{"polluted":true}}',
  '{"constructor":{"prototype":{"polluted":true}}}',
  '{"type":"x","runAt":"yesterday"}',
  '{"type":"x","tags":[1]}',
  '{"type":"x","priority":1e99}',
  '{"jobs":[]}',
  '{"jobs":[{}]}',
  '{"action":"explode","filter":"x"}',
  '{"action":"cancel","filter":"state:nowhere"}',
  '{"action":"cancel","filter":{"payload":[{"path":[],"anyOf":5}]}}',
  `${'['.repeat(500)}${']'.repeat(500)}`,
  '{"cron":"* * * *","type":"x"}',
  '{"token":""}',
  `{"type":"x","payload":"${CANARY}","retry":{"backoff":[]}}`,
  '\ufeff{}',
  '{"type":"x","after":["x"]}',
]

const KINDS: readonly (() => Promise<readonly number[]>)[] = [
  () => send([head(pick(METHODS), pick(PATHS.filter((path) => path !== '/v1/events')))]),
  () => send([head('GET', pick(PATHS.filter((path) => path !== '/v1/events')), AUTHORIZED)]),
  () => send([withBody(pick(PATHS), pick(BODIES), pick(['POST', 'PUT', 'PATCH', 'DELETE']))]),
  () => send([withBody('/v1/jobs', noise(200).toString('latin1'))]),
  () => send([noise(300)]),
  () =>
    send([
      `${pick(METHODS)} ${pick(PATHS)} HTTP/${pick(['1.1', '2.0', '0.9', 'x'])}\r\n${noise(40).toString('latin1')}\r\n\r\n`,
    ]),
  () => send([head('GET', '/healthz', [`X-Big: ${'a'.repeat(20_000)}`])]),
  () =>
    send([
      head(
        'GET',
        '/healthz',
        Array.from({ length: 2_000 }, (_, index) => `X-${index}: y`),
      ),
    ]),
  () => send([head('GET', `/${'a'.repeat(20_000)}`)]),
  () => send([head('POST', '/v1/jobs', [...AUTHORIZED, 'Content-Length: 99999999999'])]),
  () => send([head('POST', '/v1/jobs', [...AUTHORIZED, 'Content-Length: -5'])]),
  () => send([`${head('POST', '/v1/jobs', [...AUTHORIZED, 'Content-Encoding: gzip', 'Content-Length: 2'])}{}`]),
  () => send([head('POST', '/v1/jobs', [...AUTHORIZED, 'Transfer-Encoding: chunked']), 'zz\r\nnot a chunk\r\n']),
  () => send([head('POST', '/v1/jobs', [...AUTHORIZED, 'Content-Length: 50']), '{"type":'], { cutAfter: true }),
  () => send([head('GET', '/v1/events', AUTHORIZED)], { cutAfter: true }),
  () => send([`GET /healthz HTTP/1.1\r\nHost: ${pick(['evil.test', '', '::', '[', 'a b', '%'])}\r\n\r\n`]),
]

const RARE: readonly (() => Promise<readonly number[]>)[] = [
  // Two megabytes where one is allowed, without saying so first.
  () => send([head('POST', '/v1/jobs', [...AUTHORIZED, 'Transfer-Encoding: chunked']), ...chunked(2 * 1024 * 1024)]),
  () =>
    send([head('POST', '/v1/jobs/batch', [...AUTHORIZED, 'Transfer-Encoding: chunked']), ...chunked(9 * 1024 * 1024)]),
  // Headers and bodies that never end.
  () => send(['GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ']),
  () => send([head('POST', '/v1/jobs', [...AUTHORIZED, 'Content-Length: 100']), '{']),
]

function chunked(bytes: number): readonly string[] {
  const chunk = `10000\r\n${' '.repeat(65_536)}\r\n`
  return Array.from({ length: Math.ceil(bytes / 65_536) }, () => chunk)
}

async function usage(): Promise<{ rss: number; heap: number; failed: number }> {
  child.send('usage')
  return ((await once(child, 'message')) as [{ rss: number; heap: number; failed: number }])[0]
}

test('twenty thousand hostile requests do not bring it down', { timeout: 240_000 }, async () => {
  const statuses = new Map<number, number>()
  let sent = 0
  const attack = async (upTo: number) => {
    while (sent < upTo) {
      const index = sent++
      const kind = index % 250 === 0 ? pick(RARE) : KINDS[index % KINDS.length]!
      for (const status of await kind()) statuses.set(status, (statuses.get(status) ?? 0) + 1)
    }
  }
  const all = (upTo: number) => Promise.all(Array.from({ length: AT_ONCE }, () => attack(upTo)))
  await all(2_000)
  const before = await usage()

  await all(REQUESTS)

  const after = await usage()
  expect(child.exitCode).toBeNull()
  expect(failures).toEqual([])
  expect([...statuses.keys()].filter((status) => status >= 500 && status !== 503)).toEqual([])
  for (const status of [200, 400, 401, 404, 405, 408, 413, 415, 421, 431])
    expect([...statuses.keys()]).toContain(status)
  expect(after.rss).toBeLessThan(400 * 1024 * 1024)
  expect(after.heap - before.heap).toBeLessThan(64 * 1024 * 1024)
  expect(output).toBe('')
  expect((await fetch(`http://127.0.0.1:${port}/readyz`)).status).toBe(200)
})
