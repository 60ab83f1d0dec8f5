// Whom the port of a worker's metrics answers: scrapers by address, and the names it was given. Not a page that has pointed a
// name of its own at this machine.

import { request } from 'node:http'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openHoldfast } from '../../src/index.js'
import { createMetrics, type Metrics, serveMetrics } from '../../src/metrics/index.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import { systemPorts } from '../../src/system-ports.js'

let metrics: Metrics
let close: () => Promise<void>

beforeAll(async () => {
  const holdfast = await openHoldfast(memoryStore({ clock: systemPorts.clock }), { upkeep: false })
  metrics = createMetrics(holdfast)
  close = () => holdfast.close()
})

afterAll(() => close())

/** The status of a request with this Host, or without one. */
function ask(url: string, host: string | null, connectTo = '127.0.0.1'): Promise<number> {
  return new Promise((resolve, reject) => {
    const { port } = new URL(url)
    const headers = host === null ? {} : { host }
    const sent = request({ host: connectTo, port, path: '/metrics', headers, setHost: host !== null }, (answer) => {
      answer.resume()
      resolve(answer.statusCode!)
    })
    sent.on('error', reject).end()
  })
}

test('a name that somebody points at this machine is refused', async () => {
  await using server = await serveMetrics(metrics, { port: 0 })
  const { port } = new URL(server.url)
  const foreign = [
    ...[`evil.test:${port}`, 'evil.test', `localhost.evil.test:${port}`, `127.0.0.1.evil.test:${port}`],
    ...['localhost:1', '127.0.0.1:1', `LOCALHOST:${port}`, `127.0.0.1:${port}.`, null],
  ]

  for (const host of foreign) expect([host, await ask(server.url, host)]).toEqual([host, 421])
})

test('the address that was connected to and the names of this machine are answered', async () => {
  await using server = await serveMetrics(metrics, { port: 0, host: '0.0.0.0' })
  const { port } = new URL(server.url)

  expect(await ask(server.url, `127.0.0.1:${port}`)).toBe(200)
  expect(await ask(server.url, `localhost:${port}`)).toBe(200)
  expect(await ask(server.url, `127.0.0.2:${port}`, '127.0.0.2')).toBe(200)
  expect(await ask(server.url, `127.0.0.2:${port}`, '127.0.0.1')).toBe(421)
})

test('names that were given are answered too', async () => {
  await using server = await serveMetrics(metrics, { port: 0, allowHosts: ['worker-1.example.com:9464'] })

  expect(await ask(server.url, 'worker-1.example.com:9464')).toBe(200)
  expect(await ask(server.url, 'worker-2.example.com:9464')).toBe(421)
  await expect(serveMetrics(metrics, { port: 0, allowHosts: ['https://x'] })).rejects.toThrow(/a host must be/)
})
