// Short ids: the end of a job's id, which is its random part. The beginning is its time and the same for neighbours.

import { isId } from '../core/check.js'
import type { Holdfast } from '../holdfast.js'
import { CliError } from './errors.js'
import { EXIT } from './exit-codes.js'

const SHORT_LENGTH = 6
const PAGE = 200
const PAGES_MAX = 25

/** How a job is named in a line for people; `holdfast jobs show` takes it. */
export function shortId(id: string): string {
  return id.slice(-SHORT_LENGTH)
}

/** The whole id of one that was typed: itself, or the one job among the newest 5,000 whose id ends so. */
export async function findId(holdfast: Holdfast, typed: string): Promise<string> {
  const text = typed.toLowerCase()
  if (isId(text)) return text
  if (!/^[0-9a-f]{6,12}$/.test(text)) {
    throw new CliError(`a job's id is a UUID, or its last 6 to 12 characters, got ${JSON.stringify(typed)}`, {
      exitCode: EXIT.usage,
    })
  }
  const found = await findEndings(holdfast, text)
  if (found.length === 1) return found[0]!
  if (found.length > 1) {
    throw new CliError(`${found.length} jobs have an id that ends in ${text}: ${found.join(', ')}`, {
      exitCode: EXIT.usage,
      hint: 'give one of them whole',
    })
  }
  throw new CliError(`none of the newest ${PAGE * PAGES_MAX} jobs has an id that ends in ${text}`, {
    exitCode: EXIT.notFound,
    hint: 'give the whole id, and check that this is the right store',
  })
}

async function findEndings(holdfast: Holdfast, ending: string): Promise<string[]> {
  const found: string[] = []
  let cursor: string | null = null
  for (let page = 0; page < PAGES_MAX; page++) {
    const list: Awaited<ReturnType<Holdfast['list']>> = await holdfast.list({ limit: PAGE, cursor })
    found.push(...list.jobs.map(({ id }) => id).filter((id) => id.endsWith(ending)))
    cursor = list.cursor
    if (cursor === null) break
  }
  return found
}
