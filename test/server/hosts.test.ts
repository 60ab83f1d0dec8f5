// Hosts that are not ours are refused before anything else, on every route and every method, and so is what is not quite
// HTTP. Written byte by byte: no client library would send it.

import { connect } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createServer } from '../../src/server/index.js'
import { ROUTES } from '../../src/server/routes.js'
import { TestServer, TOKEN } from './support.js'

let server: TestServer

beforeAll(async () => {
  server = await TestServer.open()
})

afterAll(() => server.close())

/** Sends bytes and gives the first of the answer. */
async function sendRaw(text: string): Promise<{ status: number; text: string }> {
  const socket = connect(server.listening.port, '127.0.0.1')
  const answered = await new Promise<string>((resolve, reject) => {
    let received = ''
    socket.on('data', (chunk) => {
      received += chunk.toString('latin1')
      if (received.includes('\r\n\r\n')) resolve(received)
    })
    socket.on('error', reject)
    socket.on('close', () => resolve(received))
    socket.write(text, 'latin1')
  })
  socket.destroy()
  return { status: Number(/^HTTP\/1\.1 (\d{3})/.exec(answered)?.[1] ?? 0), text: answered }
}

const HOSTILE = [
  'evil.test',
  '127.0.0.1.evil.test:PORT',
  'localhost.evil.test:PORT',
  'evil.test#localhost:PORT',
  'localhost:1',
  'localhost',
  'localhost:PORT/x',
  'localhost:PORT?x',
  'localhost:PORT#x',
  'evil.test@localhost:PORT',
  'localhost:PORT@evil.test',
  'LOCALHOST:PORT',
  'localhost.:PORT',
  'localhost:0PORT',
  'localhost:PORT:PORT',
  '127.1:PORT',
  '2130706433:PORT',
  '0x7f.0.0.1:PORT',
  '0.0.0.0:PORT',
  '[::]:PORT',
  '[::ffff:127.0.0.1]:PORT',
  'localhost, localhost:PORT',
  'localhost:PORT,evil.test',
  'local\u00e9host:PORT',
  'localhost%00:PORT',
  '..:PORT',
  '',
] as const

const hostile = () => HOSTILE.map((host) => host.replaceAll('PORT', String(server.listening.port)))

describe.each(ROUTES.map((route) => [`${route.method} ${route.path}`, route] as const))('%s', (_, route) => {
  test('refuses every unknown host, also with a valid token', async () => {
    const path = route.path.replace(/\{\w+\}/g, 'x')
    for (const host of hostile()) {
      const lines = [`${route.method} ${path} HTTP/1.1`, `Host: ${host}`, `Authorization: Bearer ${TOKEN}`]
      const { status, text } = await sendRaw(`${lines.join('\r\n')}\r\nContent-Length: 0\r\n\r\n`)

      expect([400, 421], `${host}: ${text}`).toContain(status)
      expect(text).toMatch(/content-security-policy: default-src 'none'/i)
      expect(text).not.toMatch(/set-cookie/i)
    }
  })
})

describe('a malformed request', () => {
  const port = () => server.listening.port

  test.each([
    ['has two hosts', () => `GET /v1/me HTTP/1.1\r\nHost: localhost:${port()}\r\nHost: localhost:${port()}\r\n\r\n`],
    ['has two hosts, one of them evil', () => `GET / HTTP/1.1\r\nHost: localhost:${port()}\r\nHost: evil.test\r\n\r\n`],
    ['has no host', () => 'GET /healthz HTTP/1.1\r\n\r\n'],
    ['has no host and is HTTP/1.0', () => 'GET /healthz HTTP/1.0\r\n\r\n'],
    ['names a whole address', () => `GET http://evil.test/healthz HTTP/1.1\r\nHost: localhost:${port()}\r\n\r\n`],
    ['names our whole address', () => `GET http://localhost:${port()}/healthz HTTP/1.1\r\nHost: evil.test\r\n\r\n`],
    ['names an address without a scheme', () => `GET //evil.test/ HTTP/1.1\r\nHost: localhost:${port()}\r\n\r\n`],
    ['names a star', () => `OPTIONS * HTTP/1.1\r\nHost: localhost:${port()}\r\n\r\n`],
    [
      'upgrades under another host',
      () =>
        'GET /v1/events HTTP/1.1\r\nHost: evil.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n',
    ],
    [
      'hides a second request in its body',
      () =>
        `POST /v1/jobs HTTP/1.1\r\nHost: localhost:${port()}\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /`,
    ],
    ['has a host folded over lines', () => `GET / HTTP/1.1\r\nHost: localhost:${port()}\r\n evil.test\r\n\r\n`],
    ['has a bare line feed in its host', () => `GET / HTTP/1.1\r\nHost: localhost:${port()}\nX: y\r\n\r\n`],
    ['has an unknown expectation', () => `GET /healthz HTTP/1.1\r\nHost: evil.test\r\nExpect: wonders\r\n\r\n`],
  ])('%s: refused', async (_, bytes) => {
    const { status, text } = await sendRaw(bytes())

    expect([400, 417, 421]).toContain(status)
    expect(text).toMatch(/x-content-type-options: nosniff/i)
  })

  test('CONNECT gets no answer at all', async () => {
    const { status } = await sendRaw(`CONNECT evil.test:443 HTTP/1.1\r\nHost: localhost:${port()}\r\n\r\n`)

    expect([0, 400]).toContain(status)
  })

  test.each(['localhost', '127.0.0.1', '[::1]'])('%s with our port is ours', async (name) => {
    const { status } = await sendRaw(`GET /healthz HTTP/1.1\r\nHost: ${name}:${port()}\r\n\r\n`)

    expect(status).toBe(200)
  })
})

test('with a list of hosts only those are ours', async () => {
  const listed = createServer(server.holdfast, { hosts: ['queue.example.com', 'queue.example.com:8443'] })
  const status = async (host: string) => (await listed.fetch(new Request(`https://${host}/healthz`))).status

  expect(await status('queue.example.com')).toBe(200)
  expect(await status('queue.example.com:8443')).toBe(200)
  expect(await status('queue.example.com:9000')).toBe(421)
  expect(await status('localhost')).toBe(421)
  expect(await status('evil.queue.example.com')).toBe(421)
})
