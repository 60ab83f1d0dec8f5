// A process of another queue, at its newest version on a Node it supports: it fills the queue, or works on it and writes down what it ran.

import { appendFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { loadPeer } from '../bench/contenders/peers.js'
import { readAssignment, receiveFromParent, sendToParent } from '../bench/parent.js'
import type { PeerAssignment, PeerFill } from './import-peers.js'

/** One way to fill and one to work. `run` raises for a job that is to fail. */
interface Peer {
  fill(fill: PeerFill): Promise<void>
  work(run: (n: number) => Promise<void>): Promise<() => Promise<void>>
}

const BATCH = 1_000

function* batchesOf(from: number, count: number): Generator<readonly number[]> {
  for (let start = from; start < from + count; start += BATCH) {
    yield Array.from({ length: Math.min(BATCH, from + count - start) }, (_, index) => start + index)
  }
}

async function bullmq({ redisPort, queue, slots }: PeerAssignment): Promise<Peer> {
  const { Queue, Worker } = await loadPeer<Bullmq>('bullmq')
  const connection = { host: '127.0.0.1', port: redisPort, maxRetriesPerRequest: null }
  return {
    async fill({ waiting, delayed, failed, delayMs, schedule, edge }) {
      const all = new Queue(queue, { connection })
      for (const batch of batchesOf(waiting + delayed, failed)) {
        await all.addBulk(batch.map((n) => ({ name: 'noop', data: { n }, opts: { attempts: 1 } })))
      }
      let left = failed
      const worker = new Worker(queue, () => Promise.reject(new Error('the mail server is down')), {
        connection,
        concurrency: 50,
      })
      worker.on('failed', () => left--)
      while (left > 0) await sleep(20)
      await worker.close()
      for (const batch of batchesOf(0, waiting)) {
        await all.addBulk(
          batch.map((n) => ({
            name: 'noop',
            data: { n },
            opts: { attempts: 3, priority: edge && n % 10 === 0 ? 5 : 0 },
          })),
        )
      }
      for (const batch of batchesOf(waiting, delayed)) {
        await all.addBulk(batch.map((n) => ({ name: 'noop', data: { n }, opts: { delay: delayMs, attempts: 3 } })))
      }
      if (schedule)
        await all.upsertJobScheduler(
          'nightly',
          { pattern: '0 3 * * *', tz: 'Europe/Berlin' },
          { name: 'noop', data: { n: -1 } },
        )
      await all.close()
    },
    async work(run) {
      const worker = new Worker(queue, (job) => run(job.data.n), { connection, concurrency: slots })
      worker.on('error', () => {})
      return () => worker.close()
    },
  }
}

async function pgBoss({ url, schema, queue, slots }: PeerAssignment): Promise<Peer> {
  const { PgBoss } = await loadPeer<{ PgBoss: new (options: object) => Boss }>('pg-boss')
  const boss = new PgBoss({ connectionString: url, schema, max: 10 })
  boss.on('error', () => {})
  await boss.start()
  await boss.createQueue(queue, {})
  return {
    async fill({ waiting, delayed, failed, delayMs, schedule, edge }) {
      for (const batch of batchesOf(waiting + delayed, failed)) {
        await boss.insert(
          queue,
          batch.map((n) => ({ data: { n }, retryLimit: 0 })),
        )
        for (
          let jobs = await boss.fetch(queue, { batchSize: BATCH });
          jobs.length > 0;
          jobs = await boss.fetch(queue, { batchSize: BATCH })
        ) {
          await boss.fail(
            queue,
            jobs.map(({ id }) => id),
            { name: 'Error', message: 'the mail server is down' },
          )
        }
      }
      for (const batch of batchesOf(0, waiting)) {
        await boss.insert(
          queue,
          batch.map((n) => ({ data: { n }, retryLimit: 2, priority: edge && n % 10 === 0 ? 5 : 0 })),
        )
      }
      const startAfter = new Date(Date.now() + delayMs)
      for (const batch of batchesOf(waiting, delayed)) {
        await boss.insert(
          queue,
          batch.map((n) => ({ data: { n }, retryLimit: 2, startAfter })),
        )
      }
      if (schedule) await boss.schedule(queue, '0 3 * * *', { n: -1 }, { tz: 'Europe/Berlin', key: 'nightly' })
      await boss.stop({ graceful: false })
    },
    async work(run) {
      let isOn = true
      const lane = async () => {
        while (isOn) {
          const jobs = await boss.fetch(queue, { batchSize: 10 })
          if (jobs.length === 0) await sleep(20)
          for (const { data } of jobs) await run(data.n)
          if (jobs.length > 0)
            await boss.complete(
              queue,
              jobs.map(({ id }) => id),
            )
        }
      }
      const lanes = Array.from({ length: slots }, lane)
      return async () => {
        isOn = false
        await Promise.all(lanes)
        await boss.stop({ graceful: false })
      }
    },
  }
}

async function graphileWorker({ url, schema, queue, slots }: PeerAssignment): Promise<Peer> {
  const { run: start, makeWorkerUtils, Logger } = await loadPeer<Graphile>('graphile-worker')
  const logger = new Logger(() => () => {})
  const utils = await makeWorkerUtils({ connectionString: url, schema, logger })
  await utils.migrate()
  const add = (ns: readonly number[], more: object) =>
    utils.addJobs(ns.map((n) => ({ identifier: queue, payload: { n }, ...more })))
  return {
    async fill({ waiting, delayed, failed, delayMs, edge }) {
      for (const batch of batchesOf(waiting + delayed, failed)) {
        const jobs = await add(batch, { maxAttempts: 1 })
        await utils.permanentlyFailJobs(
          jobs.map(({ id }) => id),
          'the mail server is down',
        )
      }
      for (const batch of batchesOf(0, waiting)) {
        const urgent = edge ? batch.filter((n) => n % 10 === 0) : []
        await add(
          batch.filter((n) => !urgent.includes(n)),
          { maxAttempts: 3 },
        )
        if (urgent.length > 0) await add(urgent, { maxAttempts: 3, priority: -5 })
      }
      const runAt = new Date(Date.now() + delayMs)
      for (const batch of batchesOf(waiting, delayed)) await add(batch, { maxAttempts: 3, runAt })
      await utils.release()
    },
    async work(run) {
      const taskList = { [queue]: ({ n }: { readonly n: number }) => run(n) }
      const options = {
        connectionString: url,
        schema,
        concurrency: slots,
        noHandleSignals: true,
        taskList,
        logger,
        pollInterval: 200,
      }
      const runner = await start(options)
      return async () => {
        await runner.stop()
        await utils.release()
      }
    },
  }
}

/** The parts of the packages that are used here. */
interface Bullmq {
  readonly Queue: new (
    name: string,
    options: object,
  ) => {
    addBulk(jobs: readonly object[]): Promise<unknown>
    upsertJobScheduler(id: string, repeat: object, template: object): Promise<unknown>
    close(): Promise<void>
  }
  readonly Worker: new (
    name: string,
    run: (job: { readonly data: { readonly n: number } }) => Promise<unknown>,
    options: object,
  ) => { on(event: 'error' | 'failed', listener: () => void): void; close(): Promise<void> }
}

interface Boss {
  on(event: 'error', listener: () => void): void
  start(): Promise<unknown>
  stop(options: object): Promise<void>
  createQueue(name: string, options: object): Promise<void>
  insert(name: string, jobs: readonly object[]): Promise<unknown>
  fetch(name: string, options: object): Promise<{ readonly id: string; readonly data: { readonly n: number } }[]>
  complete(name: string, ids: readonly string[]): Promise<unknown>
  fail(name: string, ids: readonly string[], output: object): Promise<unknown>
  schedule(name: string, cron: string, data: object, options: object): Promise<unknown>
}

interface Graphile {
  readonly Logger: new (factory: () => () => void) => object
  run(options: object): Promise<{ stop(): Promise<void> }>
  makeWorkerUtils(options: object): Promise<{
    migrate(): Promise<void>
    addJobs(jobs: readonly object[]): Promise<readonly { readonly id: string }[]>
    permanentlyFailJobs(ids: readonly string[], reason: string): Promise<unknown>
    release(): Promise<void>
  }>
}

const PEERS = { bullmq, 'pg-boss': pgBoss, 'graphile-worker': graphileWorker }

async function main(assignment: PeerAssignment): Promise<void> {
  const { system, fill, record, runMs } = assignment
  const peer = await PEERS[system](assignment)
  if (fill !== null) {
    await peer.fill(fill)
    // Its end would not wait for a message that is under way.
    await new Promise((resolve) => process.send!({ kind: 'filled' }, resolve))
    return
  }
  // Written before anything else can happen to it: a job that is begun twice is there twice.
  const stop = await peer.work(async (n) => {
    appendFileSync(record, `${n}\n`)
    await sleep(runMs)
  })
  sendToParent({ kind: 'ready' })
  await receiveFromParent('stop')
  await stop()
}

await main(readAssignment<PeerAssignment>())
// Connections of the packages may keep the process open.
process.exit(0)
