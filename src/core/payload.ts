// A payload against its definition: checked when it is enqueued, lifted to the current version and checked again when it
// runs. The store keeps what the producer gave, so that a schema that transforms is applied once, before the handler.

import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { JobDefinition } from './definition.js'
import { HoldfastError } from './errors.js'
import { encodePayload } from './json.js'

/** Added to the version of a job whose payload is sealed (client/codec-store.ts): beyond that of any definition. */
export const SEALED_VERSION = 16_384

const ISSUES_MAX = 10

/** What a schema made of a value: the value for the handler, or why it does not fit. */
export type Checked = { readonly value: unknown } | { readonly problem: string }

/** Checks a value against a definition's schema. A definition without one takes everything. */
export function checkPayload(definition: Pick<JobDefinition, 'schema'>, value: unknown): Checked | Promise<Checked> {
  return definition.schema === null ? { value } : checkValue(definition.schema, value)
}

/** Checks a value against a schema. */
export function checkValue(schema: StandardSchemaV1, value: unknown): Checked | Promise<Checked> {
  const result = schema['~standard'].validate(value)
  return result instanceof Promise ? result.then(read) : read(result)
}

function read(result: StandardSchemaV1.Result<unknown>): Checked {
  if (result.issues === undefined) return { value: result.value }
  const lines = result.issues.slice(0, ISSUES_MAX).map(({ message, path }) => {
    const where = path?.map((part) => String(typeof part === 'object' ? part.key : part)).join('.')
    return where ? `${where}: ${message}` : message
  })
  if (result.issues.length > ISSUES_MAX) lines.push(`and ${result.issues.length - ISSUES_MAX} more`)
  return { problem: lines.join('; ') }
}

/**
 * The payload of a new job as JSON text, checked against the schema of its definition, if it has one. What is checked is the value read back
 * from that text, because the worker gets that: a Date that becomes a string is found here, and not by a dead job.
 */
export function encodeFor(
  definition: Pick<JobDefinition, 'type' | 'schema'> | null,
  type: string,
  payload: unknown,
  bytesMax: number,
): string | Promise<string> {
  const text = encodePayload(type, payload, bytesMax)
  if (definition === null || definition.schema === null) return text
  let checked: Checked | Promise<Checked>
  try {
    checked = checkPayload(definition, JSON.parse(text))
  } catch (cause) {
    throw schemaThrew(type, cause)
  }
  const accept = (result: Checked) => acceptText(type, text, result)
  if (!(checked instanceof Promise)) return accept(checked)
  return checked.then(accept, (cause) => {
    throw schemaThrew(type, cause)
  })
}

function acceptText(type: string, text: string, checked: Checked): string {
  if ('value' in checked) return text
  throw new HoldfastError(
    'invalid_payload',
    `the payload of "${type}", as it would be stored, does not fit its schema: ${checked.problem}`,
    { details: { type, problem: checked.problem } },
  )
}

function schemaThrew(type: string, cause: unknown): HoldfastError {
  return new HoldfastError(
    'invalid_payload',
    `the schema of "${type}" threw instead of answering: ${(cause as Error)?.message ?? cause}`,
    { cause },
  )
}

/** Lifts a stored payload to the definition's version; raises `invalid_payload` when a step is missing or throws. */
export function upgradePayload(definition: JobDefinition, version: number, payload: unknown): unknown {
  let lifted = payload
  for (let from = version; from < definition.version; from++) {
    const upgrade = definition.upgrades.get(from)
    if (upgrade === undefined) {
      throw new HoldfastError(
        'invalid_payload',
        `a payload of "${definition.type}" has version ${version}, the definition is at ${definition.version} and has no upgrade from ${from}`,
      )
    }
    try {
      lifted = upgrade(lifted)
    } catch (cause) {
      throw new HoldfastError(
        'invalid_payload',
        `the upgrade of "${definition.type}" from version ${from} threw: ${(cause as Error)?.message ?? cause}`,
        { cause },
      )
    }
  }
  return lifted
}
