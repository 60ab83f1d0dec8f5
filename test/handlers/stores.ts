// The same facts on every store: a queue of its own on each, with real workers on the machine's clock.

import pg from 'pg'
import { afterAll, beforeAll, describe } from 'vitest'
import type { RedisServer } from '../../lab/servers/redis.js'
import { type ConnectOptions, connect, type Handler, type Holdfast } from '../../src/index.js'
import { testServerUrl } from '../support/postgres.js'
import { openRedis } from '../support/redis.js'

export type StoreName = 'memory' | 'PostgreSQL' | 'Redis'

/** A queue of one test file on one store. */
export interface OpenQueue {
  readonly name: StoreName
  readonly holdfast: Holdfast
  /** The schema of a PostgreSQL store. */
  readonly schema: string
  /** Runs these handlers until the body is over. */
  working<T>(handlers: readonly Handler[], body: () => Promise<T>): Promise<T>
  /** Another connection to the same store, as another process has it; on memory, where there is none, the same one. */
  another(): Promise<Holdfast>
  /** A connection to the server of a PostgreSQL store. */
  sql(): Promise<pg.Client>
}

let files = 0

/** Runs the facts on each of the stores. */
export function onStores(
  names: readonly StoreName[],
  facts: (queue: () => OpenQueue) => void,
  options: ConnectOptions = {},
): void {
  describe.each(names)('on %s', (name) => {
    let queue: OpenQueue
    let close = async () => {}

    beforeAll(async () => {
      const schema = `handlers_${process.pid}_${++files}`
      const clients: pg.Client[] = []
      let redis: RedisServer | null = null
      if (name === 'Redis') redis = await openRedis()
      const url = name === 'memory' ? 'memory:' : name === 'Redis' ? redis!.url : testServerUrl()
      const open = () => connect(url, { ...options, ...(name === 'PostgreSQL' ? { schema } : {}) })
      const holdfast = await open()
      const others: Holdfast[] = []
      queue = {
        name,
        holdfast,
        schema,
        working: (handlers, body) => working(holdfast, handlers, body),
        async another() {
          if (name === 'memory') return holdfast
          const other = await open()
          others.push(other)
          return other
        },
        async sql() {
          const client = new pg.Client({ connectionString: testServerUrl() })
          await client.connect()
          clients.push(client)
          return client
        },
      }
      close = async () => {
        await Promise.all([holdfast, ...others].map((one) => one.close()))
        if (name === 'PostgreSQL') await (await queue.sql()).query(`DROP SCHEMA IF EXISTS ${schema} CASCADE`)
        await Promise.all(clients.map((client) => client.end()))
        await redis?.close()
      }
    })

    afterAll(() => close())

    facts(() => queue)
  })
}

async function working<T>(holdfast: Holdfast, handlers: readonly Handler[], body: () => Promise<T>): Promise<T> {
  const queues = [...new Set(handlers.map(({ definition }) => definition.queue))]
  const worker = holdfast.worker({ handlers, queues, concurrency: 4 })
  await worker.start()
  try {
    return await body()
  } finally {
    await worker.stop()
  }
}

/** The error a promise rejects with. */
export async function failure(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => {
      throw new Error('it did not fail')
    },
    (error: unknown) => error,
  )
}
