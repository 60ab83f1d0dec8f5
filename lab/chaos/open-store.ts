// The store of a process in a run: deadlines are short, so that a call that hangs ends before a lease does.

import type { Store } from '../../src/core/store.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { redisStore } from '../../src/stores/redis/index.js'
import type { Durability } from './settings.js'

const DEADLINES = { deadlineMs: 3_000, connectMs: 3_000 }

interface StorePlace {
  readonly url: string
  readonly schema: string
  readonly durability: Durability
}

/** Opens the store that the URL names. */
export function openStore({ url, schema, durability }: StorePlace): Promise<Store> {
  if (url.startsWith('redis')) return redisStore(url, { durability, migrate: false, ...DEADLINES })
  return postgresStore(url, { schema, ...DEADLINES })
}
