// BullMQ on Redis and on PostgreSQL, in its best documented settings. The two differ only in the connection.

import type { Contender, ContenderModule, Feature } from '../contender.js'
import { loadPeer, QUEUE, versionOf } from './peers.js'

const SLOTS = 64
// Its guide asks for enough connections for the slots; on two cores more than this gained nothing.
const POOL = 20

const SETTINGS =
  'addBulk() for bulk; 64 slots; finished jobs removed, except where results or memory are measured; keys: jobId; failed jobs retried without a wait'
const LACKS = 'finished jobs are not kept'

export const bullmqRedis: ContenderModule = {
  note: {
    name: 'BullMQ on Redis',
    store: 'redis',
    // Read when it is asked for: the first run installs it.
    get version() {
      return versionOf('bullmq')
    },
    settings: SETTINGS,
    lacks: LACKS,
  },
  drainShare: () => 0.15,
  cannot: { depth: 'a million of its jobs take minutes to write and as long to drain' },
  async open({ redisPort }, feature): Promise<Contender> {
    const connection = { host: '127.0.0.1', port: redisPort, maxRetriesPerRequest: null }
    return openBullmq(await loadPeer<Classes>('bullmq'), connection, feature)
  },
}

export const bullmqPostgres: ContenderModule = {
  note: {
    name: 'BullMQ on PostgreSQL',
    store: 'postgres',
    // Read when it is asked for: the first run installs it.
    get version() {
      return versionOf('bullmq')
    },
    settings: `pool of ${POOL}; ${SETTINGS}`,
    lacks: LACKS,
  },
  drainShare: () => 0.01,
  cannot: {},
  async open({ postgresUrl }, feature): Promise<Contender> {
    const { createPostgresBackend, withBackend } = await loadPeer<Backends>('bullmq')
    const connection = { connectionString: postgresUrl, max: POOL, migrate: true }
    return openBullmq(withBackend(createPostgresBackend), connection, feature)
  },
}

/** The part of BullMQ that is used here. */
interface Classes {
  readonly Queue: new (
    name: string,
    options: object,
  ) => {
    waitUntilReady(): Promise<unknown>
    add(name: string, data: object): Promise<unknown>
    addBulk(jobs: readonly object[]): Promise<unknown>
    close(): Promise<void>
  }
  readonly Worker: new (
    name: string,
    run: (job: { readonly data: object }) => Promise<unknown>,
    options: object,
  ) => { on(event: 'error', listener: () => void): void; waitUntilReady(): Promise<unknown>; close(): Promise<void> }
}

interface Backends {
  readonly createPostgresBackend: object
  withBackend(backend: object): Classes
}

async function openBullmq({ Queue, Worker }: Classes, connection: object, feature: Feature | null): Promise<Contender> {
  const removeOnComplete = feature !== 'results' && feature !== 'history'
  const retries = feature === 'retries' ? { attempts: 2 } : {}
  const queue = new Queue(QUEUE, {
    connection,
    defaultJobOptions: { removeOnComplete, removeOnFail: true, ...retries },
  })
  await queue.waitUntilReady()
  return {
    async enqueueOne(payload) {
      await queue.add(QUEUE, payload)
    },
    async enqueueMany(payloads, keys) {
      await queue.addBulk(
        payloads.map((data, index) => ({
          name: QUEUE,
          data,
          ...(keys === undefined ? {} : { opts: { jobId: keys[index]! } }),
        })),
      )
    },
    async startWorker(onJob) {
      const worker = new Worker(QUEUE, async (job) => onJob(job.data), {
        connection,
        concurrency: SLOTS,
        ...(removeOnComplete ? { removeOnComplete: { count: 0 } } : {}),
      })
      worker.on('error', () => {})
      await worker.waitUntilReady()
      return () => worker.close()
    },
    close: () => queue.close(),
  }
}
