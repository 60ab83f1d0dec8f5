// The smallest server that a scraper needs, for processes that have no other: workers.

import { once } from 'node:events'
import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { checkKeys, checkText, checkWhole } from '../core/check.js'
import { hostCheck } from '../core/hosts.js'
import type { Metrics } from './metrics.js'

export interface ServeMetricsOptions {
  /** 0 takes any that is free. */
  readonly port: number
  /** The address to listen on. Default '127.0.0.1'. Any program that reaches it can read the names of queues and types, and counts. */
  readonly host?: string
  /** The Host headers it answers to beside the address that was connected to and this machine's own names, such as
   *  'worker-1.example.com:9464'. Default: none. Everything else is refused with 421. */
  readonly allowHosts?: readonly string[]
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
  checkKeys('serveMetrics', options, ['port', 'host', 'allowHosts'])
  const port = checkWhole('port', options.port, 0, 65_535)
  const host = checkText('host', options.host ?? '127.0.0.1', 255)
  const isOurHost = hostCheck(options.allowHosts ?? null)
  const server = createServer(
    // Ours says why.
    { requestTimeout: REQUEST_MS_MAX, headersTimeout: REQUEST_MS_MAX, requireHostHeader: false },
    (request, response) => {
      const [path] = (request.url ?? '').split('?')
      const { host } = request.headers
      const { localAddress, localPort } = request.socket
      // A page elsewhere can point a name of its own at us, but not an address: a request for an address is meant for us.
      if (!isOurHost(host ?? null, localPort ?? null) && host !== urlHost(localAddress ?? '', localPort ?? 0)) {
        answer(response, 421, 'this does not answer to that Host: see the option allowHosts, or --metrics-allow-host\n')
      } else if (path !== '/metrics') answer(response, 404, 'the metrics are at /metrics\n')
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

/** An address and a port as the Host of a request has them. */
function urlHost(address: string, port: number): string {
  const plain = address.replace(/^::ffff:(?=\d+\.)/, '')
  return `${plain.includes(':') ? `[${plain}]` : plain}${port === 80 ? '' : `:${port}`}`
}

function closeServer(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve())
    server.closeAllConnections()
  })
}
