// The caller of a request, and what it may do.

import { checkChoice, checkName, checkText } from '../core/check.js'
import { type ApiKey, KEY_SCOPES, type KeyScope } from '../core/operating.js'
import { Refusal } from './problem.js'

/** How a caller was identified. */
export const VIAS = ['cookie', 'key', 'token', 'hook', 'proxy', 'open'] as const

/** An identified caller. */
export interface Who {
  readonly name: string
  /** Its name in the audit log. */
  readonly actor: string
  /** What sessions, streams and limits are counted by. Two keys of the same name have two. */
  readonly principal: string
  readonly scopes: readonly KeyScope[]
  /** The queues it is limited to; null for all. */
  readonly queues: readonly string[] | null
  readonly via: (typeof VIAS)[number]
}

/** A user, as an `authenticate` option or a proxy knows them. */
export interface Identity {
  /** 1 to 100 characters of plain text; written to the audit log. */
  readonly name: string
  /** 'admin' is all of them. */
  readonly scopes: readonly KeyScope[]
  /** The queues they are limited to; null, the default, for all. */
  readonly queues?: readonly string[] | null
}

const NAME_LENGTH_MAX = 100

/** Raises `invalid_option` for an invalid identity. */
export function whoOf(identity: Identity, via: Who['via']): Who {
  const name = checkText('the name of the caller', identity.name, NAME_LENGTH_MAX)
  const scopes = identity.scopes.map((scope) => checkChoice('a scope', scope, KEY_SCOPES))
  const queues = identity.queues?.map((queue) => checkName('queue', queue)) ?? null
  const actor = `${via}:${name}`
  return { name, actor, principal: actor, scopes, queues, via }
}

/** The holder of an API key. */
export function holderOf(key: ApiKey, via: Who['via']): Who {
  const { id, name, scopes, queues } = key
  return { name, actor: `key:${name}`, principal: `key ${id}`, scopes, queues, via }
}

/** The caller that has the server's own token. */
export function adminVia(via: Who['via']): Who {
  return { name: 'admin', actor: 'admin', principal: 'admin', scopes: ['admin'], queues: null, via }
}

export function can(who: Who, scope: KeyScope): boolean {
  if (who.scopes.includes('admin') || who.scopes.includes(scope)) return true
  // Reading payloads includes reading the jobs.
  return scope === 'read' && who.scopes.includes('read:payload')
}

export function demand(who: Who, scope: KeyScope): void {
  if (can(who, scope)) return
  throw new Refusal(403, 'forbidden', `this needs the scope '${scope}'; ${who.name} has ${who.scopes.join(', ')}`, {
    details: { scope },
  })
}

export function maySee(who: Who, queue: string): boolean {
  return who.queues === null || who.queues.includes(queue)
}

/** Raises 403 for a queue that the caller may not see. */
export function demandQueue(who: Who, queue: string): void {
  if (maySee(who, queue)) return
  throw new Refusal(403, 'forbidden', `${who.name} is limited to the queues ${who.queues!.join(', ')}`)
}

/** Raises 403 for a caller limited to some queues, on a route about all of them. */
export function demandAllQueues(who: Who, what: string): void {
  if (who.queues === null) return
  throw new Refusal(403, 'forbidden', `${what} is about all queues; ${who.name} is limited to ${who.queues.join(', ')}`)
}

/** The queue of a request, if the caller may see it. A caller limited to some queues must name one. */
export function chosenQueue(who: Who, queue: string | undefined): string | undefined {
  if (queue === undefined) demandAllQueues(who, 'a request without a queue')
  else demandQueue(who, queue)
  return queue
}
