// A handler's result against its definition: checked when the handler returns, and read again for those who wait. The store keeps
// what the handler returned, so that a schema that transforms is applied once, before the caller of wait().

import type { JobDefinition } from './definition.js'
import { HoldfastError } from './errors.js'
import { encodeResult } from './json.js'
import { type Checked, checkValue } from './payload.js'

/** The result as it is stored. Raises `invalid_result` when the definition checks results and this one does not fit. */
export async function checkResult(definition: JobDefinition, value: unknown): Promise<unknown> {
  if (definition.output === null) return value
  // What is checked is what the store gives back: a Date that becomes text is found here, and not by the caller of wait().
  const stored: unknown = JSON.parse(encodeResult(value) ?? 'null')
  accept(definition, await checkValue(definition.output, stored))
  return stored
}

/** A stored result as those who wait get it. Raises `invalid_result` when it does not fit, as one of an older handler may not. */
export async function readResult(definition: JobDefinition, stored: unknown): Promise<unknown> {
  return definition.output === null ? stored : accept(definition, await checkValue(definition.output, stored))
}

function accept({ type }: JobDefinition, checked: Checked): unknown {
  if ('value' in checked) return checked.value
  throw new HoldfastError(
    'invalid_result',
    `the result of "${type}", as it is stored, does not fit its output schema: ${checked.problem}`,
    { details: { type, problem: checked.problem } },
  )
}
