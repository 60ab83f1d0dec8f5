// pg-boss in its best documented settings.

import type { Contender, ContenderModule, Feature } from '../contender.js'
import { loadPeer, QUEUE, versionOf } from './peers.js'

const BATCH = 500
// As many connections as its pool has.
const AT_ONCE = 10

export const pgBoss: ContenderModule = {
  note: {
    name: 'pg-boss',
    store: 'postgres',
    // Read when it is asked for: the first run installs it.
    get version() {
      return versionOf('pg-boss')
    },
    settings:
      'insert() for bulk; fetch of 500 and complete in a loop, which is faster than work(); keys: singletonKey in a queue of policy short; results: one complete() for each job, ten concurrently, because one call keeps one output; failed jobs retried without a wait',
    lacks: 'no lease renewal, no fence; a key is free again when its job is fetched',
  },
  // Its speed falls as the backlog grows: with a shorter one it is at its best. One commit for each job is slow with any.
  drainShare: (feature) => (feature === 'results' ? 0.03 : 0.15),
  cannot: {},
  async open({ postgresUrl }, feature): Promise<Contender> {
    const { PgBoss } = await loadPeer<{ PgBoss: new (options: object) => Boss }>('pg-boss')
    const boss = new PgBoss({ connectionString: postgresUrl, max: AT_ONCE })
    boss.on('error', () => {})
    await boss.start()
    await boss.createQueue(QUEUE, feature === 'keys' ? { policy: 'short' } : {})
    return {
      async enqueueOne(payload) {
        await boss.send(QUEUE, payload)
      },
      async enqueueMany(payloads, keys) {
        await boss.insert(
          QUEUE,
          payloads.map((data, index) => ({
            data,
            ...(keys === undefined ? {} : { singletonKey: keys[index]! }),
          })),
        )
      },
      async startWorker(onJob) {
        let isOn = true
        const loop = (async () => {
          while (isOn) {
            const jobs = await boss.fetch(QUEUE, { batchSize: BATCH })
            if (jobs.length === 0) await new Promise((resolve) => setTimeout(resolve, 2))
            else await work(boss, jobs, onJob, feature)
          }
        })()
        return async () => {
          isOn = false
          await loop
        }
      },
      close: () => boss.stop({ graceful: false }),
    }
  },
}

/** The part of pg-boss that is used here. */
interface Boss {
  on(event: 'error', listener: () => void): void
  start(): Promise<unknown>
  stop(options: object): Promise<void>
  createQueue(name: string, options: object): Promise<void>
  send(name: string, data: object): Promise<unknown>
  insert(name: string, jobs: readonly object[]): Promise<unknown>
  fetch(name: string, options: object): Promise<{ readonly id: string; readonly data: object }[]>
  complete(name: string, ids: string | readonly string[], output?: object): Promise<unknown>
  fail(name: string, ids: readonly string[]): Promise<unknown>
}

async function work(
  boss: Boss,
  jobs: readonly { readonly id: string; readonly data: object }[],
  onJob: (payload: object) => unknown,
  feature: Feature | null,
): Promise<void> {
  const done: { id: string; result: object }[] = []
  const failed: string[] = []
  for (const { id, data } of jobs) {
    try {
      done.push({ id, result: onJob(data) as object })
    } catch {
      failed.push(id)
    }
  }
  if (failed.length > 0) await boss.fail(QUEUE, failed)
  if (feature === 'results') await completeEach(boss, done)
  else if (done.length > 0) {
    await boss.complete(
      QUEUE,
      done.map(({ id }) => id),
    )
  }
}

async function completeEach(boss: Boss, done: { id: string; result: object }[]): Promise<void> {
  const lanes = Array.from({ length: AT_ONCE }, async () => {
    for (let job = done.pop(); job !== undefined; job = done.pop()) await boss.complete(QUEUE, job.id, job.result)
  })
  await Promise.all(lanes)
}
