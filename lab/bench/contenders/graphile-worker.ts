// graphile-worker in its best documented settings.

import type { Contender, ContenderModule } from '../contender.js'
import { loadPeer, QUEUE, versionOf } from './peers.js'

export const graphileWorker: ContenderModule = {
  note: {
    name: 'graphile-worker',
    store: 'postgres',
    // Read when it is asked for: the first run installs it.
    get version() {
      return versionOf('graphile-worker')
    },
    settings: 'add_jobs() for bulk; 24 slots, local queue of 500, batched completion; keys: jobKey',
    lacks: 'no history of finished jobs, no lease renewal, no fence',
  },
  drainShare: () => 0.5,
  cannot: {
    results: 'a finished job is deleted, and its result is not kept',
    retries: 'a failed job waits e seconds (2.7) before its second attempt, and nothing can shorten that',
  },
  async open({ postgresUrl }): Promise<Contender> {
    const { run, makeWorkerUtils, Logger } = await loadPeer<Graphile>('graphile-worker')
    const utils = await makeWorkerUtils({ connectionString: postgresUrl, maxPoolSize: 10 })
    await utils.migrate()
    return {
      async enqueueOne(payload) {
        await utils.addJob(QUEUE, payload)
      },
      async enqueueMany(payloads, keys) {
        await utils.addJobs(
          payloads.map((payload, index) => ({
            identifier: QUEUE,
            payload,
            ...(keys === undefined ? {} : { jobKey: keys[index]! }),
          })),
        )
      },
      async startWorker(onJob) {
        const runner = await run({
          connectionString: postgresUrl,
          concurrency: 24,
          noHandleSignals: true,
          maxPoolSize: 10,
          taskList: {
            [QUEUE]: (payload: object) => {
              onJob(payload)
            },
          },
          preset: {
            worker: {
              localQueue: { size: 500 },
              completeJobBatchDelay: 0,
              failJobBatchDelay: 0,
              pollInterval: 100,
            },
          },
          logger: new Logger(() => () => {}),
        })
        return () => runner.stop()
      },
      close: () => utils.release(),
    }
  },
}

/** The part of graphile-worker that is used here. */
interface Graphile {
  readonly Logger: new (factory: () => () => void) => object
  run(options: object): Promise<{ stop(): Promise<void> }>
  makeWorkerUtils(options: object): Promise<{
    migrate(): Promise<void>
    addJob(task: string, payload: object): Promise<unknown>
    addJobs(jobs: readonly object[]): Promise<unknown>
    release(): Promise<void>
  }>
}
