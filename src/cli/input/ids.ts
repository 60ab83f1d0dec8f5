// Ids as people type them: whole, or only the end. The end of an id is its random part; the beginning is its time, which
// neighbours share.

import { isId } from '../../core/check.js'
import type { Holdfast } from '../../holdfast.js'
import { CliError } from '../errors.js'
import { EXIT } from '../exit-codes.js'

const SHORT_LENGTH = 6
const PAGE = 200
const PAGES_MAX = 25
const BULKS_MAX = 200

/** The end of an id, for lines and tables that people read. The commands accept it. */
export function shortId(id: string): string {
  return id.slice(-SHORT_LENGTH)
}

/** The whole id of a job. A short one is looked up among the newest 5,000 jobs. */
export async function findJobId(holdfast: Holdfast, typed: string): Promise<string> {
  const text = typed.toLowerCase()
  if (isId(text)) return text
  checkShortId('job', typed)
  const found = await jobsEndingIn(holdfast, text)
  if (found.length > 0) return onlyOne(found, `jobs have an id that ends in ${text}`)
  throw new CliError(
    `none of the newest ${(PAGE * PAGES_MAX).toLocaleString('en')} jobs has an id that ends in ${text}`,
    {
      exitCode: EXIT.notFound,
      hint: 'give the whole id, and check that this is the right store',
    },
  )
}

async function jobsEndingIn(holdfast: Holdfast, ending: string): Promise<string[]> {
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

/** The whole id of a bulk action. A short one is looked up among the newest 200. */
export async function findBulkId(holdfast: Holdfast, typed: string): Promise<string> {
  const text = typed.toLowerCase()
  if (isId(text)) return text
  checkShortId('bulk action', typed)
  const found = (await holdfast.bulks({ limit: BULKS_MAX })).map(({ id }) => id).filter((id) => id.endsWith(text))
  if (found.length > 0) return onlyOne(found, `bulk actions have an id that ends in ${text}`)
  throw new CliError(`none of the newest ${BULKS_MAX} bulk actions has an id that ends in ${text}`, {
    exitCode: EXIT.notFound,
    hint: '`holdfast bulk list --wide` shows whole ids',
  })
}

function checkShortId(what: string, typed: string): void {
  if (/^[0-9a-f]{6,12}$/i.test(typed)) return
  throw new CliError(`the id of a ${what} is a UUID, or its last 6 to 12 characters, got ${JSON.stringify(typed)}`)
}

function onlyOne(ids: readonly string[], found: string): string {
  if (ids.length === 1) return ids[0]!
  throw new CliError(`${ids.length} ${found}: ${ids.join(', ')}`, { hint: 'give one whole id' })
}
