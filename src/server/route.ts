// What a route is. The table of them (routes.ts) is the one place from which requests are routed and checked, the OpenAPI
// document is written, and the tests of every route are made.

import type { z } from 'zod'
import type { Client } from '../client/client.js'
import type { CostlyLooks } from './costly-looks.js'
import type { Gate, Origin } from './gate.js'
import type { Live } from './live.js'
import type { NewQueues } from './new-queues.js'
import type { Settings } from './options.js'
import { type Action, type Need, needsOf } from './permissions.js'
import type { RequestFilters } from './request-filter.js'
import type { Sessions } from './sessions.js'
import type { SignIns } from './sign-ins.js'
import type { StoreFacts } from './store-facts.js'
import type { WarningBoard } from './warnings.js'
import type { Who } from './who.js'

/** What all routes of a server share. */
export interface House {
  readonly holdfast: Client
  readonly settings: Settings
  readonly sessions: Sessions
  readonly signIns: SignIns
  readonly gate: Gate
  readonly live: Live
  readonly warnings: WarningBoard
  readonly facts: StoreFacts
  readonly filters: RequestFilters
  readonly looks: CostlyLooks
  readonly newQueues: NewQueues
  openApi(basePath: string): string
}

/** One request, checked. */
export interface Ask<Params = unknown, Query = unknown, Body = unknown> {
  readonly house: House
  readonly holdfast: Client
  readonly who: Who
  readonly params: Params
  readonly query: Query
  readonly body: Body
  readonly request: Request
  readonly origin: Origin
}

/** What an answer looks like. */
export interface AnswerShape {
  readonly description: string
  /** Null for one without a body. */
  readonly schema: z.ZodType | null
  /** Default 'application/json'. */
  readonly contentType?: string
}

/** A route, its schemas erased. */
export interface Route {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** With {name} for what varies. */
  readonly path: string
  /** The operation's id, and its name in the table of permissions. */
  readonly name: Action
  readonly summary: string
  readonly needs: Need
  readonly params: z.ZodObject | null
  readonly query: z.ZodObject | null
  readonly body: z.ZodType | null
  /** True where the body may be as large as a batch. */
  readonly isBatch: boolean
  /** True where the answer may cost the store much: it waits for its turn (costly-looks.ts). */
  readonly isCostly: boolean
  readonly answers: Readonly<Record<number, AnswerShape>>
  readonly answer: (ask: Ask) => Promise<Response>
}

interface RouteSpec<Params extends z.ZodObject, Query extends z.ZodObject, Body extends z.ZodType> {
  readonly method: Route['method']
  readonly path: string
  readonly name: Action
  readonly summary: string
  readonly params?: Params
  readonly query?: Query
  readonly body?: Body
  readonly isBatch?: boolean
  readonly isCostly?: boolean
  readonly answers: Readonly<Record<number, AnswerShape>>
  readonly answer: (ask: Ask<z.output<Params>, z.output<Query>, z.output<Body>>) => Promise<Response>
}

/** Makes a route whose answer is typed by its schemas. */
export function route<
  Params extends z.ZodObject = z.ZodObject,
  Query extends z.ZodObject = z.ZodObject,
  Body extends z.ZodType = z.ZodType,
>(spec: RouteSpec<Params, Query, Body>): Route {
  return {
    ...spec,
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
export function json(value: unknown, status: number = 200, headers: Readonly<Record<string, string>> = {}): Response {
  return new Response(JSON.stringify(value), { status, headers: { 'content-type': 'application/json', ...headers } })
}
