// Many connections of one peer: they are let go in favour of others, and never keep anybody else out.

import { once } from 'node:events'
import { request } from 'node:http'
import { connect, type Socket } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { TestServer, TOKEN } from './support.js'

let server: TestServer
const sockets: Socket[] = []

afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy()
  await server.close()
})

const HEAD = 'GET /healthz HTTP/1.1\r\nHost: '

/** A connection from an address of this machine that sends this much and no more. */
async function hold(localAddress: string, text: string): Promise<Socket> {
  const socket = connect({ port: server.listening.port, host: '127.0.0.1', localAddress })
  sockets.push(socket)
  socket.on('error', () => {})
  await once(socket, 'connect')
  socket.write(text)
  return socket
}

/** The status a new connection from there gets, or what went wrong with it. */
function ask(localAddress: string): Promise<number | string> {
  return new Promise((resolve) => {
    const { port } = server.listening
    const sent = request({ port, host: '127.0.0.1', path: '/v1/me', localAddress, agent: false, timeout: 3_000 })
    sent.setHeader('authorization', `Bearer ${TOKEN}`)
    sent.on('response', (response) => resolve(response.resume().statusCode!))
    sent.on('timeout', () => sent.destroy(new Error('no answer')))
    sent.on('error', (error) => resolve(error.message))
    sent.end()
  })
}

test('260 slow sockets of one peer block neither others nor its own next request', async () => {
  server = await TestServer.open()
  for (let index = 0; index < 260; index++) await hold('127.0.0.2', HEAD)

  expect(await ask('127.0.0.1')).toBe(200)
  expect(await ask('127.0.0.2')).toBe(200)
})

test('one address has a limited number of connections; the longest idle one is closed', async () => {
  server = await TestServer.open({ limits: { connectionsPerAddressMax: 3 } })
  const first = await hold('127.0.0.2', HEAD)
  const ended = once(first, 'close')
  await hold('127.0.0.2', HEAD)
  const third = await hold('127.0.0.2', HEAD)

  await hold('127.0.0.2', HEAD)
  await ended

  expect(third.destroyed).toBe(false)
})

test('at the total limit, the address with most connections loses one', async () => {
  server = await TestServer.open({ limits: { connectionsMax: 4, connectionsPerAddressMax: 4 } })
  const lone = await hold('127.0.0.3', HEAD)
  const crowd = [await hold('127.0.0.2', HEAD), await hold('127.0.0.2', HEAD), await hold('127.0.0.2', HEAD)]
  const ended = once(crowd[0]!, 'close')

  expect(await ask('127.0.0.1')).toBe(200)
  await ended
  expect(lone.destroyed).toBe(false)
})

test('a connection with a running request is not closed: the new one is refused', async () => {
  server = await TestServer.open({ limits: { connectionsPerAddressMax: 2 } })
  const headers = `Host: ${server.host}\r\nAuthorization: Bearer ${TOKEN}\r\n\r\n`
  const events = await Promise.all([1, 2].map(() => hold('127.0.0.2', `GET /v1/events HTTP/1.1\r\n${headers}`)))
  for (const socket of events) await once(socket, 'data')

  expect(await ask('127.0.0.2')).not.toBe(200)
  expect(await ask('127.0.0.1')).toBe(200)
  expect(events.map(({ destroyed }) => destroyed)).toEqual([false, false])
  events[0]!.destroy()
  while ((await ask('127.0.0.2')) !== 200) await new Promise((resolve) => setTimeout(resolve, 10))
})

test('closed connections leave nothing behind', async () => {
  server = await TestServer.open({ limits: { connectionsPerAddressMax: 2 } })

  for (let index = 0; index < 20; index++) expect(await ask('127.0.0.2')).toBe(200)
})
