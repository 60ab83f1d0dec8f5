// The peers, in their best documented settings. They are installed apart, in lab/peers, and loaded from there.

import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Contender, ContenderModule } from '../contender.js'

const require = createRequire(join(process.cwd(), 'lab', 'peers', 'package.json'))
const load = (name: string) => import(pathToFileURL(require.resolve(name)).href)
const versionOf = (name: string): string => {
  try {
    return require(`${name}/package.json`).version
  } catch {
    return 'not installed'
  }
}

const QUEUE = 'noop'

export const pgBoss: ContenderModule = {
  note: {
    name: 'pg-boss',
    store: 'postgres',
    version: versionOf('pg-boss'),
    settings: 'insert() for bulk; fetch of 500 and complete in a loop, which is faster than work()',
    lacks: 'no lease renewal, no fence',
  },
  async open({ postgresUrl }): Promise<Contender> {
    const { default: PgBoss } = await load('pg-boss')
    const boss = new PgBoss({ connectionString: postgresUrl, max: 10 })
    boss.on('error', () => {})
    await boss.start()
    await boss.createQueue(QUEUE)
    return {
      async enqueueOne(payload) {
        await boss.send(QUEUE, payload)
      },
      async enqueueMany(payloads) {
        await boss.insert(payloads.map((data) => ({ name: QUEUE, data })))
      },
      async startWorker(onJob) {
        let isOn = true
        const loop = (async () => {
          while (isOn) {
            const jobs = await boss.fetch(QUEUE, { batchSize: 500 })
            if (jobs.length === 0) await new Promise((resolve) => setTimeout(resolve, 2))
            else {
              for (const job of jobs) onJob(job.data)
              await boss.complete(
                QUEUE,
                jobs.map((job: { id: string }) => job.id),
              )
            }
          }
        })()
        return async () => {
          isOn = false
          await loop
        }
      },
      close: () => boss.stop({ graceful: false, wait: true }),
    }
  },
}

export const graphileWorker: ContenderModule = {
  note: {
    name: 'graphile-worker',
    store: 'postgres',
    version: versionOf('graphile-worker'),
    settings: 'add_jobs() for bulk; 24 at once, local queue of 500, batched completion',
    lacks: 'no history of finished jobs, no lease renewal, no fence',
  },
  async open({ postgresUrl }): Promise<Contender> {
    const { run, makeWorkerUtils } = await load('graphile-worker')
    const utils = await makeWorkerUtils({ connectionString: postgresUrl, maxPoolSize: 10 })
    await utils.migrate()
    return {
      async enqueueOne(payload) {
        await utils.addJob(QUEUE, payload)
      },
      async enqueueMany(payloads) {
        await utils.addJobs(payloads.map((payload) => ({ identifier: QUEUE, payload })))
      },
      async startWorker(onJob) {
        const runner = await run({
          connectionString: postgresUrl,
          concurrency: 24,
          noHandleSignals: true,
          maxPoolSize: 10,
          taskList: { [QUEUE]: (payload: object) => onJob(payload) },
          preset: {
            worker: {
              localQueue: { size: 500 },
              completeJobBatchDelay: 0,
              failJobBatchDelay: 0,
              pollInterval: 100,
            },
          },
          logger: new (await load('graphile-worker')).Logger(() => () => {}),
        })
        return () => runner.stop()
      },
      close: () => utils.release(),
    }
  },
}

export const bullmqRedis: ContenderModule = {
  note: {
    name: 'BullMQ on Redis',
    store: 'redis',
    version: versionOf('bullmq'),
    settings: 'AOF everysec; addBulk() for bulk; 64 at once; finished jobs removed',
    lacks: 'may lose the last second when the machine fails; finished jobs are not kept',
  },
  async open({ redisPort }): Promise<Contender> {
    const { Queue, Worker } = await load('bullmq')
    const connection = { host: '127.0.0.1', port: redisPort, maxRetriesPerRequest: null }
    const options = { removeOnComplete: true, removeOnFail: true }
    const queue = new Queue(QUEUE, { connection, defaultJobOptions: options })
    await queue.waitUntilReady()
    return {
      async enqueueOne(payload) {
        await queue.add(QUEUE, payload)
      },
      async enqueueMany(payloads) {
        await queue.addBulk(payloads.map((data) => ({ name: QUEUE, data })))
      },
      async startWorker(onJob) {
        const worker = new Worker(QUEUE, async (job: { data: object }) => onJob(job.data), {
          connection,
          concurrency: 64,
          removeOnComplete: { count: 0 },
        })
        await worker.waitUntilReady()
        return () => worker.close()
      },
      close: () => queue.close(),
    }
  },
}
