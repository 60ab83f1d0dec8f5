// Who asks, and what they may do.

import { checkChoice, checkName, checkText } from '../core/check.js'
import { type ApiKey, KEY_SCOPES, type KeyScope } from '../core/operating.js'
import { Refusal } from './problem.js'

/** How somebody was known. */
export const VIAS = ['cookie', 'key', 'token', 'hook', 'proxy', 'open'] as const

/** Somebody who is known. */
export interface Who {
  readonly name: string
  /** As the audit log has it. */
  readonly actor: string
  /** Whom sessions and event streams are counted for. Two keys of one name are two. */
  readonly principal: string
  readonly scopes: readonly KeyScope[]
  /** The queues they are kept to; null for all. */
  readonly queues: readonly string[] | null
  readonly via: (typeof VIAS)[number]
}

/** Somebody, as an `authenticate` hook or a proxy knows them. */
export interface Identity {
  /** 1 to 100 characters of plain text; stands in the audit log. */
  readonly name: string
  /** 'admin' is all of them. */
  readonly scopes: readonly KeyScope[]
  /** The queues they are kept to; null, the default, for all. */
  readonly queues?: readonly string[] | null
}

const NAME_LENGTH_MAX = 100

/** Raises `invalid_option` for an identity that is none. */
export function whoOf(identity: Identity, via: Who['via']): Who {
  const name = checkText('the name of who asks', identity.name, NAME_LENGTH_MAX)
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

/** The one who has the token of the server itself. */
export function adminVia(via: Who['via']): Who {
  return { name: 'admin', actor: 'admin', principal: 'admin', scopes: ['admin'], queues: null, via }
}

export function can(who: Who, scope: KeyScope): boolean {
  if (who.scopes.includes('admin') || who.scopes.includes(scope)) return true
  // Whoever may see payloads may see the jobs around them.
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

/** Raises 403 for a queue that is not theirs. */
export function demandQueue(who: Who, queue: string): void {
  if (maySee(who, queue)) return
  throw new Refusal(403, 'forbidden', `${who.name} is for the queues ${who.queues!.join(', ')} only`)
}

/** Raises 403 for somebody kept to some queues, where something is about all of them. */
export function demandAllQueues(who: Who, what: string): void {
  if (who.queues === null) return
  throw new Refusal(403, 'forbidden', `${what} is about all queues; ${who.name} is for ${who.queues.join(', ')} only`)
}

/** The queue that was asked for, of those they may see. Whoever is kept to some must name one. */
export function chosenQueue(who: Who, queue: string | undefined): string | undefined {
  if (queue === undefined) demandAllQueues(who, 'a look without a queue')
  else demandQueue(who, queue)
  return queue
}
