// The part of a filter that is about payloads. They have up to a megabyte each, so a search reads a bounded number of bytes. Jobs are
// first compared with the rest of the filter. Then payloads are read in batches of a few megabytes, each parsed once for all terms.

import type { JobFilter, PayloadMatch } from '../../core/job-filter.js'
import type { Send } from './database.js'
import { readable } from './filter.js'
import { arrayOf, type Statement, statement } from './statement.js'

/** How many jobs are looked at in one step. Learning their sizes unpacks each payload: 100 MB in the worst case, in 100 ms. */
const PORTION_MAX = 100
/** What one statement reads: 4 MB are parsed in some 100 ms, so that nobody waits longer than that for their turn. */
const BATCH_BYTES = 4 * 1024 * 1024
/** What one page or count reads in all. */
const SEARCH_BYTES_MAX = 32 * 1024 * 1024

const SIZES = statement(
  'payload_sizes',
  `
SELECT jobs.id, octet_length(jobs.payload::text)
  FROM unnest($1::uuid[]) AS asked (id)
 CROSS JOIN LATERAL (SELECT jobs.id, jobs.payload FROM :schema.jobs WHERE jobs.id = asked.id OFFSET 0) AS jobs`,
)

const MATCHING_PAYLOAD = statement(
  'matching_payload',
  `
SELECT parsed.id
  FROM unnest($1::uuid[]) AS asked (id)
 CROSS JOIN LATERAL (
   SELECT jobs.id, (${readable('jobs.payload')})::jsonb AS payload FROM :schema.jobs WHERE jobs.id = asked.id OFFSET 0
 ) AS parsed
 WHERE NOT EXISTS (
         SELECT FROM json_to_recordset($2::json) AS term (path text[], "anyOf" jsonb)
          CROSS JOIN LATERAL (SELECT parsed.payload #> term.path AS value OFFSET 0) AS found
          WHERE found.value IS NULL
             OR (term."anyOf" IS NOT NULL
                 AND NOT EXISTS (SELECT FROM jsonb_array_elements(term."anyOf") AS any_of (value)
                                  WHERE any_of.value = found.value)))`,
)

/** The search for one filter's payloads, or null when it has no condition on them. */
export function payloadsOf(filter: JobFilter): PayloadSearch | null {
  return filter.payload === undefined ? null : new PayloadSearch(filter.payload)
}

class PayloadSearch {
  readonly portionMax: number = PORTION_MAX
  readonly #terms: string
  #bytesLeft = SEARCH_BYTES_MAX
  /** Those of the last look that match. */
  matching: readonly string[] = []

  constructor(terms: readonly PayloadMatch[]) {
    this.#terms = JSON.stringify(terms)
  }

  /** Looks at these ids in order, and returns those it has looked at: all of them, unless it has read as much as it may. */
  async look(
    send: Send,
    ids: readonly string[],
    others: Statement,
    parameters: readonly unknown[],
  ): Promise<readonly string[]> {
    this.matching = []
    if (ids.length === 0) return ids
    const candidates = new Set((await send(others, [arrayOf(ids), ...parameters])).map(([id]) => id!))
    const sought = ids.filter((id) => candidates.has(id))
    if (sought.length === 0) return ids
    const sizes = new Map((await send(SIZES, [arrayOf(sought)])).map(([id, bytes]) => [id!, Number(bytes)]))
    const matching: string[] = []
    let batch: string[] = []
    let batchBytes = 0
    const readBatch = async () => {
      if (batch.length > 0) {
        const found = new Set((await send(MATCHING_PAYLOAD, [arrayOf(batch), this.#terms])).map(([id]) => id!))
        matching.push(...batch.filter((id) => found.has(id)))
      }
      batch = []
      batchBytes = 0
    }
    let looked = ids
    for (const id of sought) {
      const bytes = sizes.get(id) ?? 0
      // The first payload of a look is always read, so that every page comes further.
      if (bytes > this.#bytesLeft && this.#bytesLeft < SEARCH_BYTES_MAX) {
        looked = ids.slice(0, ids.indexOf(id))
        break
      }
      if (batchBytes + bytes > BATCH_BYTES) await readBatch()
      batch.push(id)
      batchBytes += bytes
      this.#bytesLeft -= bytes
    }
    await readBatch()
    this.matching = matching
    return looked
  }
}
