// The smallest server that a scraper needs, for processes that have no other: workers.

import { once } from 'node:events'
import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { checkKeys, checkText, checkWhole } from '../core/check.js'
import type { Metrics } from './metrics.js'

export interface ServeMetricsOptions {
  /** 0 takes any that is free. */
  readonly port: number
  /** The address to listen on. Default '127.0.0.1'. Whoever reaches it reads the names of queues and types, and counts. */
  readonly host?: string
}

/** A server that runs. */
export interface MetricsServer extends AsyncDisposable {
  /** Where the metrics are. */
  readonly url: string
  close(): Promise<void>
}

const REQUEST_MS_MAX = 10_000
const CONNECTIONS_MAX = 50

/** Serves metrics at /metrics. Does not keep the process alive. Raises what listening raises. */
export async function serveMetrics(metrics: Metrics, options: ServeMetricsOptions): Promise<MetricsServer> {
  checkKeys('serveMetrics', options, ['port', 'host'])
  const port = checkWhole('port', options.port, 0, 65_535)
  const host = checkText('host', options.host ?? '127.0.0.1', 255)
  const server = createServer(
    { requestTimeout: REQUEST_MS_MAX, headersTimeout: REQUEST_MS_MAX },
    (request, response) => {
      const [path] = (request.url ?? '').split('?')
      if (path !== '/metrics') answer(response, 404, 'the metrics are at /metrics\n')
      else if (request.method !== 'GET' && request.method !== 'HEAD') answer(response, 405, 'only GET is answered\n')
      else void render(metrics, response)
    },
  )
  server.maxConnections = CONNECTIONS_MAX
  server.listen(port, host)
  await once(server, 'listening')
  server.unref()
  const close = () => closeServer(server)
  return { url: urlOf(server), close, [Symbol.asyncDispose]: close }
}

async function render(metrics: Metrics, response: ServerResponse): Promise<void> {
  try {
    const text = await metrics.render()
    response.setHeader('content-type', metrics.contentType)
    response.end(text)
  } catch {
    answer(response, 500, 'the metrics could not be read\n')
  }
}

function answer(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8' }).end(text)
}

function urlOf(server: Server): string {
  const { address, port, family } = server.address() as AddressInfo
  return `http://${family === 'IPv6' ? `[${address}]` : address}:${port}/metrics`
}

function closeServer(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve())
    server.closeAllConnections()
  })
}
