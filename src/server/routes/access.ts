// Routes about API keys and sessions.

import type { KeyOptions } from '../../client/keys.js'
import { endedCookie, readSession, sessionCookie } from '../cookie.js'
import { Refusal } from '../problem.js'
import { type Answer, json, type Route, type RouteRequest, route } from '../route.js'
import { idParams } from '../schemas/basics.js'
import { nothing } from '../schemas/jobs.js'
import * as shapes from '../schemas/operating.js'
import { demandAllQueues, type Who } from '../who.js'

/** Exchanges a token for a session. Returns the cookie and the caller, or null when the token is wrong. */
export async function signIn(
  { context, origin }: Pick<RouteRequest, 'context' | 'origin'>,
  token: string,
  options: { readonly onlyOnce: boolean } = { onlyOnce: false },
): Promise<{ readonly who: Who; readonly cookie: string } | null> {
  const known = await context.gate.exchange(token, origin, options)
  if (known === null) return null
  const { secret, lengthS } = context.sessions.open(known.of, known.who)
  context.settings.log({ name: 'signed_in', who: known.who.actor, peer: origin.peer })
  const note = context.signIns.note(known.who)
  // A sign-in succeeds even if its audit line cannot be written.
  if (note !== null)
    await context.holdfast.record({ action: 'sign in', ...note }, { by: known.who.actor }).catch(() => {})
  return { who: known.who, cookie: sessionCookie(origin, secret, lengthS) }
}

async function openSession(
  request: RouteRequest<unknown, unknown, shapes.SignInBody>,
): Promise<Answer<Pick<Who, 'name' | 'scopes'>>> {
  const signed = await signIn(request, request.body.token)
  if (signed === null) throw new Refusal(401, 'unauthenticated', 'this token is unknown, used before, or expired')
  const { name, scopes } = signed.who
  return json({ name, scopes }, 200, { 'set-cookie': signed.cookie })
}

async function endSession({ context, http, origin }: RouteRequest): Promise<Response> {
  const secret = readSession(http, origin)
  if (secret !== null) context.sessions.end(secret)
  return new Response(null, { status: 204, headers: { 'set-cookie': endedCookie(origin) } })
}

export const accessRoutes: readonly Route[] = [
  route('POST /v1/session', {
    name: 'signIn',
    summary: 'Exchanges a token or an API key for a cookie',
    body: shapes.signIn,
    answers: { 200: { description: 'Signed in', schema: shapes.signedIn } },
    answer: openSession,
  }),
  route('DELETE /v1/session', {
    name: 'signOut',
    summary: 'Ends the session of this browser',
    body: nothing,
    answers: { 204: { description: 'Signed out', schema: null } },
    answer: endSession,
  }),
  route('GET /v1/keys', {
    name: 'listKeys',
    summary: 'Every API key, without its secret',
    answers: { 200: { description: 'Newest first', schema: shapes.apiKeys } },
    answer: async ({ holdfast, who }) => {
      demandAllQueues(who, 'the list of keys')
      return json({ keys: await holdfast.keys() })
    },
  }),
  route('POST /v1/keys', {
    name: 'createKey',
    summary: 'Creates an API key; its secret is in this answer and nowhere else',
    body: shapes.newKey,
    answers: { 201: { description: 'The key and its secret', schema: shapes.createdKey } },
    answer: async ({ holdfast, who, body }) => {
      demandAllQueues(who, 'creating keys')
      return json(await holdfast.createKey(body as KeyOptions, { by: who.actor }), 201)
    },
  }),
  route('POST /v1/keys/{id}/revoke', {
    name: 'revokeKey',
    summary: 'Revokes an API key immediately',
    params: idParams,
    body: nothing,
    answers: { 200: { description: 'The key', schema: shapes.apiKey } },
    answer: async ({ holdfast, who, params }) => {
      demandAllQueues(who, 'revoking keys')
      return json(await holdfast.revokeKey(params.id, { by: who.actor }))
    },
  }),
]
