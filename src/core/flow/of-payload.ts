// What a definition finds in the payload of a job: its group and its cost. ◄── client/flow-options.ts

import type { JobDefinition } from '../definition.js'
import { HoldfastError, show } from '../errors.js'
import { checkCost, checkGroup } from './resolve.js'

/** The group of a job by what its definition says; null for none. */
export function groupOf(definition: Pick<JobDefinition, 'type' | 'flow'> | null, payload: unknown): string | null {
  const group = definition?.flow?.group ?? null
  if (typeof group !== 'function') return group
  const found = ask(definition!.type, 'group', () => group(payload))
  return found === null ? null : checkGroup(found)
}

/** What a job costs by what its definition says. */
export function costOf(definition: Pick<JobDefinition, 'type' | 'flow'> | null, payload: unknown): number {
  const cost = definition?.flow?.cost ?? 1
  return typeof cost === 'function' ? checkCost(ask(definition!.type, 'cost', () => cost(payload))) : cost
}

function ask<T>(type: string, what: string, read: () => T): T {
  try {
    return read()
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : show(cause)
    throw new HoldfastError('invalid_payload', `${what} of "${type}" could not be read from the payload: ${why}`, {
      cause,
    })
  }
}
