// A bulk action by the id that was typed, whole or its end.

import { isId } from '../core/check.js'
import type { Holdfast } from '../holdfast.js'
import { CliError } from './errors.js'
import { EXIT } from './exit-codes.js'

const NEWEST = 200

/** The whole id: itself, or the one among the newest 200 that ends so. */
export async function findBulkId(holdfast: Holdfast, typed: string): Promise<string> {
  const text = typed.toLowerCase()
  if (isId(text as unknown)) return text
  const found = (await holdfast.bulks({ limit: NEWEST })).filter(({ id }) => text.length >= 6 && id.endsWith(text))
  if (found.length === 1) return found[0]!.id
  throw new CliError(`no one bulk action among the newest ${NEWEST} has an id that ends in ${JSON.stringify(typed)}`, {
    exitCode: EXIT.notFound,
    hint: '`holdfast bulk list --wide` shows whole ids',
  })
}
