// Routes a request by the table, identifies its caller, checks its parts, and calls the route.

import { type Context, Hono } from 'hono'
import type { z } from 'zod'
import { type BodyBudget, readJson } from './body.js'
import { checkContentType, isSafe } from './cross-site.js'
import type { Origin } from './gate.js'
import type { Pages } from './pages.js'
import { Refusal } from './problem.js'
import type { Route, RouteRequest, ServerContext } from './route.js'
import { signIn } from './routes/access.js'
import { adminVia, demand, type Who } from './who.js'

/** One request: what its routing needs, and what its log line tells. */
export interface RequestLog {
  readonly requestId: string
  /** Below the base path. */
  readonly path: string
  readonly origin: Origin
  route: string | null
  who: string | null
}

type App = Hono<{ Bindings: RequestLog }>
type Part = 'path' | 'query' | 'body'

interface AppParts {
  readonly context: ServerContext
  readonly routes: readonly Route[]
  readonly pages: Pages
  readonly budget: BodyBudget
}

/** The routes as an app. Errors are raised, not answered: the caller turns them into problems. */
export function createApp({ context, routes, pages, budget }: AppParts): App {
  const app: App = new Hono<{ Bindings: RequestLog }>({ getPath: (_request, options) => options?.env?.path ?? '/' })
  app.onError((error) => {
    throw error
  })
  const methods = new Map<string, string[]>()
  for (const route of routes) {
    const path = route.path.replace(/\{(\w+)\}/g, ':$1')
    methods.set(path, [...(methods.get(path) ?? []), route.method])
    app.on(route.method, path, (hono) => serve(route, hono, context, budget))
  }
  for (const [path, known] of methods) app.all(path, () => refuseMethod(known))
  for (const prefix of ['/v1/*', '/dlq/*']) app.all(prefix, () => refusePath())
  app.get('*', (hono) => servePage(hono, context, pages))
  app.all('*', () => refusePath())
  return app
}

function refuseMethod(known: readonly string[]): never {
  const allow = [...known, ...(known.includes('GET') ? ['HEAD'] : [])].join(', ')
  throw new Refusal(405, 'method_not_allowed', `this takes ${allow}`, { headers: { allow } })
}

function refusePath(): never {
  throw new Refusal(404, 'not_found', 'there is nothing here: GET openapi.json lists the routes')
}

async function serve(
  route: Route,
  hono: Context<{ Bindings: RequestLog }>,
  context: ServerContext,
  budget: BodyBudget,
): Promise<Response> {
  const request = hono.req.raw
  const entry = hono.env
  entry.route = route.path
  const who = await admit(route, request, entry, context)
  checkContentType(request)
  const routed: RouteRequest = {
    context,
    holdfast: context.holdfast,
    who,
    http: request,
    origin: entry.origin,
    params: route.params === null ? {} : check('path', route.params, hono.req.param()),
    query: check('query', route.query, readQuery(request)),
    body: await readBody(route, request, context, budget),
  }
  if (!route.isCostly) return route.answer(routed)
  return context.costlyReads.run(who.principal, request.signal, () => route.answer(routed))
}

/** The caller, if allowed to use the route. Raises 401 or 403. */
async function admit(
  route: Route,
  request: Request,
  entry: RequestLog,
  { gate, settings }: ServerContext,
): Promise<Who> {
  // Open routes check no rights.
  if (route.needs === 'anyone')
    return { ...adminVia('open'), name: 'anyone', actor: 'anyone', principal: 'anyone', scopes: [] }
  const who = await gate.identify(request, entry.origin)
  if (who === null) {
    throw new Refusal(401, 'unauthenticated', 'sign in, or send `Authorization: Bearer <API key>`', {
      headers: { 'www-authenticate': 'Bearer' },
    })
  }
  entry.who = who.actor
  if (route.needs === 'signed_in') return who
  for (const scope of route.needs) demand(who, scope)
  if (settings.readOnly && !isSafe(route.method)) {
    throw new Refusal(403, 'read_only', 'this server is read-only')
  }
  return who
}

async function readBody(
  route: Route,
  request: Request,
  { settings }: ServerContext,
  budget: BodyBudget,
): Promise<unknown> {
  if (isSafe(request.method)) return undefined
  const { batchBytesMax, bodyBytesMax, jsonDepthMax, requestTimeoutMs } = settings.limits
  const bytesMax = route.isBatch ? batchBytesMax : bodyBytesMax
  const value = await readJson(request, { bytesMax, depthMax: jsonDepthMax, timeoutMs: requestTimeoutMs }, budget)
  return route.body === null ? undefined : check('body', route.body, value ?? {})
}

function readQuery(request: Request): unknown {
  const query: Record<string, string> = Object.create(null)
  for (const [name, value] of new URL(request.url).searchParams) {
    if (name in query) throw new Refusal(400, 'invalid_option', `query: ${JSON.stringify(name)} is given twice`)
    query[name] = value
  }
  return query
}

const ISSUES_MAX = 10

function check(part: Part, schema: z.ZodType | null, value: unknown): unknown {
  if (schema === null) {
    const [name] = Object.keys(value as object)
    if (name === undefined) return {}
    throw new Refusal(400, 'invalid_option', `${part}: ${JSON.stringify(name)} is not known here`)
  }
  const result = schema.safeParse(value)
  if (result.success) return result.data
  const issues = result.error.issues.slice(0, ISSUES_MAX).map(({ path, message }) => ({
    path: [part, ...path.map(String)].join('.'),
    message,
  }))
  const { path, message } = issues[0]!
  throw new Refusal(400, 'invalid_option', `${path}: ${message}`, { details: { issues } })
}

/** A page of the dashboard. One that is opened with a token gets a session, and is redirected to an address without it. */
async function servePage(
  hono: Context<{ Bindings: RequestLog }>,
  context: ServerContext,
  pages: Pages,
): Promise<Response> {
  const request = hono.req.raw
  const { path, origin } = hono.env
  const token = new URL(request.url).searchParams.get('token')
  if (token === null) return pages.answer(path, origin.basePath)
  const headers = new Headers({ location: `${origin.basePath}/` })
  const site = request.headers.get('sec-fetch-site')
  // Another site must not sign a user in, and an API key must never be in an address.
  if (request.method === 'GET' && (site === null || site === 'none' || site === 'same-origin')) {
    const signed = await signIn({ context, origin }, token, { onlyOnce: true })
    if (signed !== null) headers.set('set-cookie', signed.cookie)
  }
  return new Response(null, { status: 303, headers })
}
