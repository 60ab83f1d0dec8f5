// Holdfast as a user would run it: group commit for single enqueues, one worker in the process.

import { type ConnectOptions, connect, defineJob, type Holdfast, openHoldfast } from '../../../src/index.js'
import { postgresStore } from '../../../src/stores/postgres/index.js'
import { redisStore } from '../../../src/stores/redis/index.js'
import { VERSION } from '../../../src/version.js'
import type { Contender, ContenderModule } from '../contender.js'
import { type SeenClaim, watchStore } from '../growth/watched-store.js'

export const holdfast: ContenderModule = moduleWith({})

/** The same on Redis. */
export const holdfastRedis: ContenderModule = moduleWith({}, 'redis')

/** Remembers what was accepted, for a failover. */
export const holdfastMemory: ContenderModule = moduleWith({ failoverMemory: true })

/** Forgets it immediately. */
export const holdfastForgetful: ContenderModule = moduleWith({ failoverMemory: false })

function moduleWith(options: ConnectOptions, store: 'postgres' | 'redis' = 'postgres'): ContenderModule {
  return {
    note: {
      name: store === 'redis' ? 'holdfast on Redis' : 'holdfast',
      store,
      version: VERSION,
      settings: 'defaults; worker: 64 slots; failed jobs retried without a wait',
      lacks: '–',
    },
    drainShare: () => 1,
    cannot: {},
    async open({ postgresUrl, redisPort }, feature): Promise<Contender> {
      const url = store === 'redis' ? `redis://127.0.0.1:${redisPort}` : postgresUrl
      const claimsMs: number[] = []
      const client = feature === 'claims' ? await watched(store, url, claimsMs) : await connect(url, options)
      const retryNow = { retry: { backoff: 'fixed', base: 0, jitter: false } } as const
      const noop = defineJob<object>('noop', feature === 'retries' ? retryNow : {})
      return {
        async enqueueOne(payload) {
          await client.enqueue(noop, payload)
        },
        async enqueueMany(payloads, keys) {
          if (keys === undefined) await client.enqueueMany(noop, payloads)
          else {
            await client.enqueueMany(
              payloads.map((payload, index) => [noop, payload, { idempotencyKey: keys[index]! }]),
            )
          }
        },
        async startWorker(onJob) {
          const worker = client.worker({ concurrency: 64, handlers: [noop.handle(onJob)] })
          await worker.start()
          return () => worker.stop()
        },
        claimsMs,
        close: () => client.close(),
      }
    },
  }
}

/** A client that adds to `claimsMs` how long each claim took that found jobs. */
async function watched(store: 'postgres' | 'redis', url: string, claimsMs: number[]): Promise<Holdfast> {
  const opened = store === 'redis' ? await redisStore(url) : await postgresStore(url)
  const watcher = {
    claimed: ({ jobs, tookMs }: SeenClaim) => {
      if (jobs > 0) claimsMs.push(tookMs)
    },
    succeeded: () => {},
  }
  return openHoldfast(watchStore(opened, watcher))
}
