// Requests of node:http, also inside express, fastify and others. It reads what a Request does not carry, and refuses what cannot
// become one.

import type { IncomingMessage, ServerResponse } from 'node:http'
import type { TLSSocket } from 'node:tls'
import { getRequestListener, type HttpBindings } from '@hono/node-server'
import { type Answering, type Arrival, pathBelow } from './answering.js'
import { isBasePath, PROXY_SECRET_HEADER, type Settings } from './options.js'
import { Refusal, refusalOf } from './problem.js'

/** Answers requests of node:http; also a middleware for express and connect. */
export type NodeHandler = (incoming: IncomingMessage, outgoing: ServerResponse) => void

/** What frameworks add to a request. */
interface Framed extends IncomingMessage {
  /** express and connect: the address before they removed the mount path. */
  readonly originalUrl?: string
  /** express: the mount path. */
  readonly baseUrl?: string
  /** The body as a parser in front of us has parsed it. */
  readonly body?: unknown
  rawBody?: Buffer
}

export function nodeHandler(answering: Answering, settings: Settings): NodeHandler {
  const listener = getRequestListener(
    (request, env) => answering.answer(request, arrivalOf((env as HttpBindings).incoming, settings)),
    {
      // Other code of this process keeps its own Request and Response.
      overrideGlobalObjects: false,
      errorHandler: () => answering.refuse(new Refusal(400, 'bad_request', 'the request cannot be read')),
    },
  )
  return (incoming, outgoing) => {
    const refusal = refusalBefore(incoming, answering)
    if (refusal !== null) return void writeResponse(outgoing, answering.refuse(refusal))
    restoreBody(incoming)
    outgoing.on('error', () => {})
    void listener(incoming, outgoing)
  }
}

/** Why a request is refused before its address is read, or null. */
function refusalBefore(incoming: IncomingMessage, answering: Answering): Refusal | null {
  const close = { headers: { connection: 'close' } }
  // Only requests to a proxy have a full address. Its host could differ from the Host header.
  if (!incoming.url?.startsWith('/') || incoming.url.startsWith('//')) {
    return new Refusal(400, 'bad_request', 'the request must name a path', close)
  }
  const hosts = incoming.rawHeaders.filter((name, index) => index % 2 === 0 && name.toLowerCase() === 'host').length
  if (hosts > 1) return new Refusal(400, 'bad_request', 'the request has more than one Host', close)
  try {
    answering.checkHost(incoming.headers.host ?? null, incoming.socket.localPort ?? null)
    return null
  } catch (error) {
    const { status, code, message } = refusalOf(error)
    return new Refusal(status, code, message, close)
  }
}

/** Writes an answer that is small and complete. */
export async function writeResponse(outgoing: ServerResponse, response: Response): Promise<void> {
  const body = Buffer.from(await response.arrayBuffer())
  outgoing.on('error', () => {})
  outgoing.writeHead(response.status, Object.fromEntries(response.headers))
  outgoing.end(body)
}

function arrivalOf(incoming: Framed, settings: Settings): Arrival {
  const { socket, baseUrl = '' } = incoming
  const basePath = settings.basePath ?? (isBasePath(baseUrl) ? baseUrl : '')
  const full = new URL(`http://localhost${incoming.originalUrl ?? incoming.url}`).pathname
  const peer = socket.remoteAddress?.replace(/^::ffff:(?=\d+\.)/, '') ?? null
  const isFromProxy = settings.proxy?.sent(peer, incoming.headers[PROXY_SECRET_HEADER]) === true
  return {
    host: incoming.headers.host ?? '',
    localPort: socket.localPort ?? null,
    peer,
    isFromProxy,
    client: isFromProxy ? (lastOf(incoming.headers['x-forwarded-for']) ?? peer) : peer,
    basePath,
    path: pathBelow(basePath, full),
    isSecure:
      (socket as TLSSocket).encrypted === true || (isFromProxy && incoming.headers['x-forwarded-proto'] === 'https'),
  }
}

/** The address that the proxy itself has added. Those before it come from the client and may be forged. */
function lastOf(forwarded: string | string[] | undefined): string | null {
  return forwarded?.toString().split(',').at(-1)?.trim().slice(0, 64) || null
}

/** When a body parser in front of us has read the body, writes its result as JSON again for us to read. */
function restoreBody(incoming: Framed): void {
  if (!incoming.readableEnded || incoming.body === undefined || incoming.rawBody !== undefined) return
  incoming.rawBody = Buffer.from(JSON.stringify(incoming.body) ?? '')
}
