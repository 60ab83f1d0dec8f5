// What a route is. The table of them (routes.ts) decides how requests are routed and checked. The OpenAPI document and the
// tests of every route are made from it.

import type { z } from 'zod'
import type { Client } from '../client/client.js'
import type { CostlyReads } from './costly-reads.js'
import type { Gate, Origin } from './gate.js'
import type { Live } from './live.js'
import type { NewQueues } from './new-queues.js'
import type { Settings } from './options.js'
import { type Action, type Need, needsOf } from './permissions.js'
import type { RequestFilters } from './request-filter.js'
import type { Wire } from './schemas/basics.js'
import type { Sessions } from './sessions.js'
import type { SignIns } from './sign-ins.js'
import type { StoreFacts } from './store-facts.js'
import type { WarningBoard } from './warnings.js'
import type { Who } from './who.js'

/** The parts of a server that its routes use. */
export interface ServerContext {
  readonly holdfast: Client
  readonly settings: Settings
  readonly sessions: Sessions
  readonly signIns: SignIns
  readonly gate: Gate
  readonly live: Live
  readonly warnings: WarningBoard
  readonly facts: StoreFacts
  readonly filters: RequestFilters
  readonly costlyReads: CostlyReads
  readonly newQueues: NewQueues
  openApi(basePath: string): string
}

/** One request after its checks: who sent it, and its path, query and body as the route's schemas describe them. */
export interface RouteRequest<Params = unknown, Query = unknown, Body = unknown> {
  readonly context: ServerContext
  readonly holdfast: Client
  readonly who: Who
  readonly params: Params
  readonly query: Query
  readonly body: Body
  readonly http: Request
  readonly origin: Origin
}

/** What an answer looks like. */
export interface AnswerShape<Body = unknown> {
  readonly description: string
  /** Null for an answer without a JSON body. */
  readonly schema: z.ZodType<Body> | null
  /** Default 'application/json'. */
  readonly contentType?: string
}

/** A response whose JSON body is a `Body`. */
export interface Answer<Body> extends Response {
  /** Never there: it lets the compiler compare the body with the route's schemas. */
  readonly bodyType?: Body
}

/** The bodies that a table of answers allows. */
type BodyOf<Answers> = {
  [Status in keyof Answers]: Answers[Status] extends { readonly schema: z.ZodType<infer Body> } ? Body : never
}[keyof Answers]

/** A route without the types of its schemas. */
export interface Route {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** With {name} for a parameter. */
  readonly path: string
  /** The operation's id, and its name in the table of permissions. */
  readonly name: Action
  readonly summary: string
  readonly needs: Need
  readonly params: z.ZodObject | null
  readonly query: z.ZodObject | null
  readonly body: z.ZodType | null
  /** True where the body may have the size of a batch. */
  readonly isBatch: boolean
  /** True where the answer may be expensive for the store: it waits for its turn (costly-reads.ts). */
  readonly isCostly: boolean
  readonly answers: Readonly<Record<number, AnswerShape>>
  readonly answer: (request: RouteRequest) => Promise<Response>
}

interface RouteSpec<
  Params extends z.ZodObject,
  Query extends z.ZodObject,
  Body extends z.ZodType,
  Answers extends Route['answers'],
> extends Pick<Route, 'name' | 'summary'>,
    Partial<Pick<Route, 'isBatch' | 'isCostly'>> {
  readonly params?: Params
  readonly query?: Query
  readonly body?: Body
  readonly answers: Answers
  readonly answer: (
    request: RouteRequest<z.output<Params>, z.output<Query>, z.output<Body>>,
  ) => Promise<Answer<BodyOf<Answers>>>
}

/** Makes a route for requests such as 'GET /v1/jobs/{id}'. The compiler holds its answer to its schemas. */
export function route<
  Answers extends Route['answers'],
  Params extends z.ZodObject = z.ZodObject,
  Query extends z.ZodObject = z.ZodObject,
  Body extends z.ZodType = z.ZodType,
>(requests: `${Route['method']} /${string}`, spec: RouteSpec<Params, Query, Body, Answers>): Route {
  const [method, path] = requests.split(' ') as [Route['method'], string]
  return {
    ...spec,
    method,
    path,
    needs: needsOf(spec.name),
    params: spec.params ?? null,
    query: spec.query ?? null,
    body: spec.body ?? null,
    isBatch: spec.isBatch ?? false,
    isCostly: spec.isCostly ?? false,
    answer: spec.answer as unknown as Route['answer'],
  }
}

/** An answer in JSON; dates become ISO strings. */
export function json<const Value>(
  value: Value,
  status: number = 200,
  headers: Readonly<Record<string, string>> = {},
): Answer<Wire<Value>> {
  return new Response(JSON.stringify(value), { status, headers: { 'content-type': 'application/json', ...headers } })
}
