// The filter of a request, limited to the queues that the caller may see. A filter on a masked value is recorded in the audit:
// its count reveals whether a guess was right.

import { createHash } from 'node:crypto'
import type { Client } from '../client/client.js'
import { readFilter } from '../core/filter.js'
import { narrowQueues } from '../core/filter-match.js'
import type { JobFilter, PayloadMatch } from '../core/job-filter.js'
import type { Settings } from './options.js'
import { Refusal } from './problem.js'
import { isSecretText, looksLikeJson, mayBeSecretPath } from './secret-names.js'
import { can, type Who } from './who.js'

/** No job has it. */
const NOBODY = '00000000-0000-7000-8000-000000000000'
/** The same search is recorded again only after this time: pages repeat theirs every few seconds. */
const REMEMBERED_MS = 600_000
const REMEMBERED_MAX = 1_000
/** Paths in one line of the audit. */
const PATHS_MAX = 10

interface FiltersParts {
  readonly holdfast: Client
  readonly settings: Pick<Settings, 'redact' | 'now'>
}

export class RequestFilters {
  readonly #parts: FiltersParts
  /** When each search was last recorded, by caller and terms. */
  readonly #noted = new Map<string, number>()

  constructor(parts: FiltersParts) {
    this.#parts = parts
  }

  /** The filter of a request, limited to what the caller may see. Raises 403 for a filter on payloads without the scope
   *  `read:payload`. */
  async read(who: Who, filter: unknown): Promise<JobFilter> {
    const read = readFilter(filter ?? '')
    if (read.payload !== undefined) await this.#checkPayload(who, read.payload)
    if (who.queues === null) return read
    const narrowed = narrowQueues(read, who.queues)
    // None of the caller's queues is left. An empty list of queues is not a valid filter, so no job's id is asked for.
    return narrowed.queues?.length === 0 ? { queues: who.queues, ids: [NOBODY] } : narrowed
  }

  async #checkPayload(who: Who, terms: readonly PayloadMatch[]): Promise<void> {
    if (!can(who, 'read:payload')) {
      throw new Refusal(
        403,
        'forbidden',
        "a filter on payloads needs the scope 'read:payload': its result reveals what is in them",
      )
    }
    const masked = terms.filter((term) => this.#isMasked(term))
    if (masked.length === 0 || !this.#isNew(who, masked)) return
    const paths = [...new Set(masked.map(({ path }) => ['payload', ...path].join('.').slice(0, 100)))].slice(
      0,
      PATHS_MAX,
    )
    const values = masked.reduce((sum, { anyOf }) => sum + (anyOf?.length ?? 0), 0)
    // Recorded first. If that fails the request fails: there must be no search without a record. The values are never recorded.
    await this.#parts.holdfast.record({ action: 'search masked', details: { paths, values } }, { by: who.actor })
  }

  /** True for a term that may be about a masked value. With a `redact` option that is every term: what it masks depends on the
   *  job. */
  #isMasked({ path, anyOf }: PayloadMatch): boolean {
    if (this.#parts.settings.redact !== null || mayBeSecretPath(path)) return true
    return anyOf?.some((value) => typeof value === 'string' && (isSecretText(value) || looksLikeJson(value))) ?? false
  }

  #isNew({ principal }: Who, terms: readonly PayloadMatch[]): boolean {
    const nowMs = this.#parts.settings.now()
    const key = createHash('sha256')
      .update(JSON.stringify([principal, terms]))
      .digest('base64')
    const notedMs = this.#noted.get(key)
    if (notedMs !== undefined && nowMs - notedMs < REMEMBERED_MS) return false
    this.#noted.delete(key)
    if (this.#noted.size >= REMEMBERED_MAX) this.#noted.delete(this.#noted.keys().next().value!)
    this.#noted.set(key, nowMs)
    return true
  }
}
