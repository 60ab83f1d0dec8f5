// The store of a test on a server. Apart from connect.ts, so that programs never load it.

import { HoldfastError } from './core/errors.js'
import type { Clock } from './core/ports.js'
import type { Store } from './core/store.js'
import { redactUrl } from './core/url.js'

/** Opens a store for one test, in a schema of its own that is dropped when the store is closed. Raises `invalid_url` for what is no PostgreSQL. */
export async function openTestStore(url: string, clock: Clock): Promise<{ store: Store; schema: string }> {
  if (typeof url !== 'string' || !/^postgres(ql)?:\/\//.test(url)) {
    throw new HoldfastError(
      'invalid_url',
      `testHoldfast takes the URL of a PostgreSQL server, postgres://…, or none for the memory store, got ${redactUrl(String(url))}`,
    )
  }
  const { openTestSchema } = await import('./stores/postgres/test-schema.js')
  return openTestSchema(url, clock)
}
