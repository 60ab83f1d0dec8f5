// A node:http server for the API: bound to this machine by default, with limits for each connection.

import { createServer, type Server as HttpServer, type RequestListener } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { checkKeys, checkText, checkWhole } from '../core/check.js'
import { HoldfastError } from '../core/errors.js'
import { isLoopback } from '../core/hosts.js'
import type { Answering } from './answering.js'
import type { Connections } from './connections.js'
import { type NodeHandler, writeResponse } from './node.js'
import type { Settings } from './options.js'
import { Refusal } from './problem.js'
import { SECURITY_HEADERS } from './security-headers.js'

export interface ListenOptions {
  /** Default 4680; 0 for any that is free. */
  readonly port?: number
  /** Default 'localhost': 127.0.0.1 and ::1, which only this machine can reach. Other addresses need authentication. */
  readonly host?: string
}

/** A server that listens. */
export interface Listening {
  /** Without a slash at its end, the base path included. */
  readonly url: string
  readonly host: string
  readonly port: number
  /** Accepts no more requests, gives running ones up to five seconds, and ends the rest. */
  close(): Promise<void>
}

const PORT_DEFAULT = 4_680
const HEADERS_BYTES_MAX = 16 * 1024
const KEEP_ALIVE_MS = 5_000
/** An idle socket is closed after this time. Event streams send a comment every 15 s. */
const IDLE_MS = 60_000
const CLOSE_MS = 5_000
const TRIES = 5

interface ListenParts {
  readonly handler: NodeHandler
  readonly answering: Answering
  readonly settings: Settings
  readonly connections: Connections
}

export async function listen(parts: ListenParts, options: ListenOptions = {}): Promise<Listening> {
  checkKeys('listen', options, ['port', 'host'])
  const port = checkWhole('port', options.port ?? PORT_DEFAULT, 0, 65_535)
  const host = checkText('host', options.host ?? 'localhost', 255)
  checkReach(host, parts.settings)
  const servers = host === 'localhost' ? await bindBoth(parts, port) : [await bind(parts, host, port)]
  const address = servers[0]!.address() as AddressInfo
  const shown = host.includes(':') ? `[${host}]` : host
  const url = `http://${shown}:${address.port}${parts.settings.basePath ?? ''}`
  parts.settings.log({ name: 'listening', url })
  return {
    url,
    host,
    port: address.port,
    close: async () => {
      await Promise.all(servers.map(close))
    },
  }
}

/** Raises when the address is reachable from other machines and no authentication was chosen. */
function checkReach(host: string, { hasChosenAuth, insecureNoAuth, log }: Settings): void {
  if (insecureNoAuth) {
    log({ name: 'insecure', text: `insecureNoAuth is set: anyone who can reach ${host} may do everything` })
  }
  if (isLoopback(host) || hasChosenAuth) return
  throw new HoldfastError(
    'invalid_option',
    `listening on ${host} needs authentication: give token, apiKeys: true, authenticate or proxy (or insecureNoAuth: true to let anyone do everything)`,
    { details: { host } },
  )
}

/** Both loopback addresses with one port. Browsers try either for 'localhost' and must not reach another program. */
async function bindBoth(parts: ListenParts, port: number): Promise<readonly HttpServer[]> {
  for (let attempt = 1; ; attempt++) {
    const first = await bind(parts, '127.0.0.1', port)
    try {
      return [first, await bind(parts, '::1', (first.address() as AddressInfo).port)]
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      // A machine without IPv6 has no ::1.
      if (code === 'EADDRNOTAVAIL' || code === 'EAFNOSUPPORT') return [first]
      await close(first)
      if (code !== 'EADDRINUSE' || port !== 0 || attempt === TRIES) throw error
    }
  }
}

function bind(
  { handler, answering, settings, connections }: ListenParts,
  host: string,
  port: number,
): Promise<HttpServer> {
  const { requestTimeoutMs } = settings.limits
  const server = createServer(
    {
      maxHeaderSize: HEADERS_BYTES_MAX,
      headersTimeout: Math.ceil(requestTimeoutMs / 3),
      requestTimeout: requestTimeoutMs,
      keepAliveTimeout: KEEP_ALIVE_MS,
      connectionsCheckingInterval: Math.min(2_000, Math.ceil(requestTimeoutMs / 6)),
      // Our own check answers with a problem that explains it.
      requireHostHeader: false,
    },
    handler as RequestListener,
  )
  connections.watch(server)
  server.setTimeout(IDLE_MS)
  server.on('checkExpectation', (_request, response) => {
    const refusal = new Refusal(417, 'bad_request', 'this expectation is not met', { headers: { connection: 'close' } })
    void writeResponse(response, answering.refuse(refusal))
  })
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => refuseBytes(error, socket as Socket))
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen({ port, host, backlog: 512 }, () => {
      server.off('error', reject)
      resolve(server)
    })
  })
}

/** Answers bytes that are not valid HTTP, are too many, or come too slowly. */
function refuseBytes({ code }: NodeJS.ErrnoException, socket: Socket): void {
  if (!socket.writable || code === 'ECONNRESET') return void socket.destroy()
  const [status, words, named] =
    code === 'HPE_HEADER_OVERFLOW'
      ? [431, 'Request Header Fields Too Large', 'bad_request']
      : code === 'ERR_HTTP_REQUEST_TIMEOUT'
        ? [408, 'Request Timeout', 'request_timeout']
        : [400, 'Bad Request', 'bad_request']
  const body = JSON.stringify({ type: `errors#${named}`, title: words, status, code: named, detail: words })
  const headers = Object.entries({
    ...SECURITY_HEADERS,
    'content-type': 'application/problem+json',
    'content-length': String(Buffer.byteLength(body)),
    'cache-control': 'no-store',
    connection: 'close',
  })
  const lines = headers.map(([name, value]) => `${name}: ${value}\r\n`).join('')
  socket.end(`HTTP/1.1 ${status} ${words}\r\n${lines}\r\n${body}`)
  // Anything sent after this is not read.
  socket.destroySoon()
}

async function close(server: HttpServer): Promise<void> {
  if (!server.listening) return
  const closed = new Promise<void>((resolve) => server.close(() => resolve()))
  server.closeIdleConnections()
  const timer = setTimeout(() => server.closeAllConnections(), CLOSE_MS)
  await closed
  clearTimeout(timer)
}
