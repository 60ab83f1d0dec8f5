// A server: its parts put together, and the three ways to receive requests.

import type { Client } from '../client/client.js'
import { hostCheck } from '../core/hosts.js'
import { Answering, type Arrival, pathBelow } from './answering.js'
import { createApp } from './app.js'
import { BodyBudget } from './body.js'
import { Connections } from './connections.js'
import { CostlyReads } from './costly-reads.js'
import { FailedLogins } from './failed-logins.js'
import { Gate } from './gate.js'
import { type Listening, type ListenOptions, listen } from './listen.js'
import { Live } from './live.js'
import { NewQueues } from './new-queues.js'
import { type NodeHandler, nodeHandler } from './node.js'
import { openApiDocument } from './openapi.js'
import { PROXY_SECRET_HEADER, resolveOptions, type ServerOptions, type Settings } from './options.js'
import { Pages } from './pages.js'
import { RequestFilters } from './request-filter.js'
import type { ServerContext } from './route.js'
import { ROUTES } from './routes.js'
import { Sessions } from './sessions.js'
import { SignIns } from './sign-ins.js'
import { StoreFacts } from './store-facts.js'
import { WarningBoard } from './warnings.js'

/** How many bodies of the largest size fit into memory together. */
const LARGEST_BODIES_MAX = 8

/** The HTTP API and the dashboard of a queue. */
export interface Server {
  /** Answers a Request. Mount it in hono, Next, or any framework that uses fetch handlers. */
  fetch(request: Request, env?: unknown): Promise<Response>
  /** For node:http, express (`app.use('/queue', server.toNodeHandler())`), fastify and others. */
  toNodeHandler(): NodeHandler
  /** Starts an HTTP server. Raises `invalid_option` for an address that other machines can reach when no authentication was
   *  chosen. */
  listen(options?: ListenOptions): Promise<Listening>
  /** A token that signs in once: as `<url>/?token=…`, or pasted into the sign-in page. */
  createToken(): string
  /** Stops listening and ends the event streams. The queue stays open: the server does not own it. */
  close(): Promise<void>
}

/**
 * Makes a server for a queue.
 *
 * @example
 * const server = createServer(holdfast)
 * const { url } = await server.listen()
 * console.log(`${url}/?token=${server.createToken()}`)
 */
export function createServer(holdfast: Client, options: ServerOptions = {}): Server {
  const settings = resolveOptions(options)
  const context = createContext(holdfast, settings)
  const budget = new BodyBudget(
    LARGEST_BODIES_MAX * Math.max(settings.limits.batchBytesMax, settings.limits.bodyBytesMax),
  )
  const app = createApp({ context, routes: ROUTES, pages: new Pages(settings.dashboard), budget })
  const answering = new Answering({ app, settings, isOurHost: hostCheck(settings.hosts) })
  const handler = nodeHandler(answering, settings)
  const connections = new Connections(settings.limits)
  const listening = new Set<Listening>()
  return {
    fetch: (request, env) => answering.answer(request, arrivalOf(request, env, settings)),
    toNodeHandler: () => handler,
    listen: async (listenOptions) => {
      const started = await listen({ handler, answering, settings, connections }, listenOptions)
      listening.add(started)
      return started
    },
    createToken: () => context.sessions.createToken(),
    close: async () => {
      context.live.close()
      holdfast.endRemoteWaits()
      await Promise.all([...listening].map((started) => started.close()))
    },
  }
}

function createContext(holdfast: Client, settings: Settings): ServerContext {
  const { now, limits } = settings
  const sessions = new Sessions(settings.sessionMs, now)
  const failedLogins = new FailedLogins(limits.failedLoginsMax, now)
  const facts = new StoreFacts(holdfast, now)
  const warnings = new WarningBoard(holdfast, facts, now)
  const documents = new Map<string, string>()
  return {
    holdfast,
    settings,
    sessions,
    signIns: new SignIns(now),
    facts,
    costlyReads: new CostlyReads(),
    newQueues: new NewQueues(holdfast),
    warnings,
    filters: new RequestFilters({ holdfast, settings }),
    gate: new Gate({ holdfast, settings, sessions, failedLogins }),
    live: new Live({ holdfast, warnings, limits, now }),
    openApi: (basePath) => {
      const known = documents.get(basePath) ?? openApiDocument(ROUTES, basePath)
      // With express, mount paths come from requests and may vary without bound.
      if (documents.size < 10) documents.set(basePath, known)
      return known
    },
  }
}

interface NodeEnv {
  readonly incoming?: { readonly socket?: { readonly remoteAddress?: string; readonly localPort?: number } }
}

/** Where a Request came from. The framework may have removed the base path already. */
function arrivalOf(request: Request, env: unknown, { basePath, proxy }: Settings): Arrival {
  const url = new URL(request.url)
  const socket = (env as NodeEnv | undefined)?.incoming?.socket
  const path = pathBelow(basePath ?? '', url.pathname) ?? url.pathname
  const peer = socket?.remoteAddress?.replace(/^::ffff:(?=\d+\.)/, '') ?? null
  return {
    host: request.headers.get('host') ?? url.host,
    localPort: socket?.localPort ?? null,
    peer,
    client: peer,
    isFromProxy: proxy?.sent(peer, request.headers.get(PROXY_SECRET_HEADER)) === true,
    basePath: basePath ?? '',
    path,
    isSecure: url.protocol === 'https:',
  }
}
