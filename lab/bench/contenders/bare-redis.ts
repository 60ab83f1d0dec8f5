// What Redis itself offers for queues, with nothing around it: a stream with a consumer group, and a list from which each job is moved
// to a second one while it runs. The driver sends what is called in one turn of the event loop together.

import { openConnection } from '../../../src/stores/redis/node-redis.js'
import type { RedisConnection } from '../../../src/stores/redis/port.js'
import type { Contender, ContenderModule, Feature } from '../contender.js'

const BATCH = 500
const CONNECT_MS = 5_000
/** How long one call waits for jobs. Short, because a worker stops between two calls. */
const BLOCK_MS = 20

const IS_A_LOOP = 'it is a loop without them'
const CANNOT: Partial<Record<Feature, string>> = { keys: IS_A_LOOP, results: IS_A_LOOP, retries: IS_A_LOOP }

const STREAM = 'bare:jobs'
const GROUP = 'workers'
/** Entries that another consumer has held for this long are taken over. */
const TAKEN_OVER_MS = 30_000
const LOOK_MS = 10_000

export const redisStream: ContenderModule = {
  note: {
    name: 'stream and consumer group',
    store: 'redis',
    version: '–',
    settings: 'XADD for each job; XREADGROUP and XACK 500 at a time; XAUTOCLAIM every 10 s',
    lacks: 'everything but the commands: no order by priority, no fence, no retries, no lookup by id',
  },
  drainShare: () => 1,
  cannot: CANNOT,
  async open({ redisPort }): Promise<Contender> {
    const [writer, reader, settler] = await dialThree(redisPort)
    // It exists already when several processes drain.
    await writer.send(['XGROUP', 'CREATE', STREAM, GROUP, '0', 'MKSTREAM']).catch(() => {})
    const consumer = `worker-${process.pid}`
    const add = (payload: object) => writer.send(['XADD', STREAM, '*', 'job', JSON.stringify(payload)])
    return {
      async enqueueOne(payload) {
        await add(payload)
      },
      async enqueueMany(payloads) {
        await Promise.all(payloads.map(add))
      },
      startWorker(onJob) {
        let lookedMs = performance.now()
        const read = () => {
          if (performance.now() - lookedMs < LOOK_MS) return readNew(reader, consumer)
          lookedMs = performance.now()
          return takeOver(reader, consumer)
        }
        return loop(read, async (entries) => {
          for (const [, fields] of entries) onJob(JSON.parse(fields[1]))
          await settler.send(['XACK', STREAM, GROUP, ...entries.map(([id]) => id)])
        })
      },
      close: () => closeAll([writer, reader, settler]),
    }
  },
}

type Entry = readonly [id: string, fields: readonly [name: string, value: string]]

async function readNew(reader: RedisConnection, consumer: string): Promise<readonly Entry[]> {
  const options = ['COUNT', String(BATCH), 'BLOCK', String(BLOCK_MS)]
  const reply = await reader.send(['XREADGROUP', 'GROUP', GROUP, consumer, ...options, 'STREAMS', STREAM, '>'])
  return reply === null ? [] : (reply as unknown as [[string, Entry[]]])[0][1]
}

async function takeOver(reader: RedisConnection, consumer: string): Promise<readonly Entry[]> {
  const command = ['XAUTOCLAIM', STREAM, GROUP, consumer, String(TAKEN_OVER_MS), '0-0', 'COUNT', String(BATCH)]
  const reply = await reader.send(command)
  return (reply as unknown as [string, Entry[]])[1]
}

const WAITING = 'bare:waiting'
const RUNNING = 'bare:running'

export const redisList: ContenderModule = {
  note: {
    name: 'list',
    store: 'redis',
    version: '–',
    settings: 'LPUSH; LMOVE and LREM for each job, 500 sent together',
    lacks: 'everything but the commands: finished jobs are gone, and nothing takes over those of a dead worker',
  },
  drainShare: () => 1,
  cannot: { ...CANNOT, history: 'finished jobs are gone' },
  async open({ redisPort }): Promise<Contender> {
    const [writer, reader, settler] = await dialThree(redisPort)
    return {
      async enqueueOne(payload) {
        await writer.send(['LPUSH', WAITING, JSON.stringify(payload)])
      },
      async enqueueMany(payloads) {
        await writer.send(['LPUSH', WAITING, ...payloads.map((payload) => JSON.stringify(payload))])
      },
      startWorker(onJob) {
        return loop(
          () => moveJobs(reader),
          async (jobs) => {
            for (const job of jobs) onJob(JSON.parse(job))
            await Promise.all(jobs.map((job) => settler.send(['LREM', RUNNING, '-1', job])))
          },
        )
      },
      close: () => closeAll([writer, reader, settler]),
    }
  },
}

/** Waits for the first job; when there is one, others may follow it. */
async function moveJobs(reader: RedisConnection): Promise<readonly string[]> {
  const [first, others] = await Promise.all([
    reader.send(['BLMOVE', WAITING, RUNNING, 'RIGHT', 'LEFT', String(BLOCK_MS / 1_000)]),
    reader.send(['LLEN', WAITING]),
  ])
  if (first === null) return []
  const move = () => reader.send(['LMOVE', WAITING, RUNNING, 'RIGHT', 'LEFT'])
  const moved = await Promise.all(Array.from({ length: Math.min(BATCH - 1, Number(others)) }, move))
  return [first, ...moved].filter((job) => job !== null) as string[]
}

async function dialThree(redisPort: number | null): Promise<[RedisConnection, RedisConnection, RedisConnection]> {
  const dial = () => openConnection({ url: `redis://127.0.0.1:${redisPort}`, connectMs: CONNECT_MS })
  return [await dial(), await dial(), await dial()]
}

async function closeAll(connections: readonly RedisConnection[]): Promise<void> {
  for (const connection of connections) connection.destroy()
}

/** Reads jobs and handles them until it is stopped. The next jobs are read while those before are settled. */
async function loop<Job>(
  read: () => Promise<readonly Job[]>,
  handle: (jobs: readonly Job[]) => Promise<void>,
): Promise<() => Promise<void>> {
  let isOn = true
  const run = async () => {
    let settling: Promise<void> = Promise.resolve()
    while (isOn) {
      const jobs = await read()
      if (jobs.length === 0) continue
      await settling
      settling = handle(jobs)
    }
    await settling
  }
  const running = run()
  return async () => {
    isOn = false
    await running
  }
}
