// What a worker over HTTP must do. The names are the specification.

import { setTimeout as sleep } from 'node:timers/promises'
import { DRAIN_MS, LEASE_MS, QUEUE, type Stage, same } from './stage.js'

export interface ConformanceCase {
  readonly name: string
  readonly run: (stage: Stage) => Promise<void>
}

const RETRY = { backoff: 'fixed', base: 100, jitter: false } as const
const LONG_MS = 60_000
const VALUES = [null, true, 1.5, 9_007_199_254_740_991, '', 'ü 𝄞 "\\ \u2028', [], {}, { a: { b: [1, null, 'c'] } }]

/** These run at the same time, in one process of the worker. */
export const TOGETHER: readonly ConformanceCase[] = [
  {
    name: 'a result is what the handler returned, whatever JSON it is',
    run: async (stage) => {
      const ids = await Promise.all(VALUES.map((value) => stage.enqueue('echo', value)))
      for (const [index, id] of ids.entries()) same('the result', (await stage.ended(id)).result, VALUES[index])
    },
  },
  {
    name: 'a handler gets the facts of its job',
    run: async (stage) => {
      const id = await stage.enqueue('facts', null, { tags: ['eu', 'é'] })
      same('the facts', (await stage.ended(id)).result, {
        id,
        attempt: 1,
        queue: QUEUE,
        type: 'facts',
        tags: ['eu', 'é'],
      })
    },
  },
  {
    name: 'a failed attempt is kept with its message, and the job runs again',
    run: async (stage) => {
      const id = await stage.enqueue('fail', { times: 1, message: 'boom: ü' }, { retry: RETRY })
      const { state, result, attempts } = await stage.ended(id)
      same('the state', state, 'succeeded')
      same('the result', result, 2)
      same('the message of the first attempt', attempts[0]?.error?.message, 'boom: ü')
    },
  },
  {
    name: 'a job that always fails is dead after its attempts',
    run: async (stage) => {
      const id = await stage.enqueue('fail', { times: 99, message: 'no' }, { retry: RETRY, maxAttempts: 2 })
      const { state, reason, attempt } = await stage.ended(id)
      same('the end', { state, reason, attempt }, { state: 'dead', reason: 'attempts', attempt: 2 })
    },
  },
  {
    name: 'a job that its handler drops is dead immediately',
    run: async (stage) => {
      const { state, reason, attempt, error } = await stage.ended(await stage.enqueue('drop', { message: 'closed' }))
      same('the end', { state, reason, attempt }, { state: 'dead', reason: 'dropped', attempt: 1 })
      same('the message', error?.message, 'closed')
    },
  },
  {
    name: 'a handler chooses when its next attempt comes',
    run: async (stage) => {
      const id = await stage.enqueue('retry', { delayMs: 700 })
      const { result, createdAt, finishedAt } = await stage.ended(id)
      same('the result', result, 2)
      same('it ran again after its delay', finishedAt!.getTime() - createdAt.getTime() >= 700, true)
    },
  },
  {
    name: 'a job that is snoozed runs later, with no attempt used up',
    run: async (stage) =>
      same('the result', (await stage.ended(await stage.enqueue('snooze', { delayMs: 300 }))).result, 1),
  },
  {
    name: 'a job that runs for longer than its lease keeps it',
    run: async (stage) => {
      const { result, attempts } = await stage.ended(await stage.enqueue('block', { ms: LEASE_MS * 2.5 }))
      same('the attempt that succeeded', result, 1)
      same('the failed attempts', attempts.length, 0)
    },
  },
  {
    name: 'a running job that is cancelled stops',
    run: async (stage) => {
      const id = await stage.enqueue('sleep', { ms: LONG_MS })
      await stage.begun(id)
      await stage.holdfast.cancel(id)
      same('the state', (await stage.ended(id)).state, 'cancelled')
    },
  },
  {
    name: 'an attempt that runs out of time fails, and the next one may run',
    run: async (stage) => {
      const id = await stage.enqueue('sleep', { ms: LONG_MS }, { timeout: 1_000, maxAttempts: 2, retry: RETRY })
      const { state, reason, attempt } = await stage.ended(id)
      same('the end', { state, reason, attempt }, { state: 'dead', reason: 'attempts', attempt: 2 })
    },
  },
  {
    name: 'progress and log lines are kept',
    run: async (stage) => {
      const id = await stage.enqueue('notes', { progress: { done: 3, of: 4 }, lines: ['one', 'two ü'] })
      const { progress, logs } = await stage.ended(id)
      same('the progress', progress, { done: 3, of: 4 })
      same(
        'the lines',
        logs.map(({ text }) => text),
        ['one', 'two ü'],
      )
    },
  },
  {
    name: 'a hundred jobs run once each',
    run: async (stage) => {
      const ids = await Promise.all(Array.from({ length: 100 }, (_, index) => stage.enqueue('echo', index)))
      const jobs = await Promise.all(ids.map((id) => stage.ended(id)))
      same(
        'the attempts',
        jobs.filter(({ attempt }) => attempt !== 1),
        [],
      )
    },
  },
  {
    name: 'jobs of other types and queues are left alone',
    run: async (stage) => {
      const [type, queue] = [
        await stage.enqueue('nobody-knows', 1),
        await stage.enqueue('echo', 1, { queue: 'elsewhere' }),
      ]
      await stage.ended(await stage.enqueue('echo', 'after them'))
      for (const id of [type, queue]) {
        const { state, attempt } = (await stage.holdfast.get(id))!
        same('the job', { state, attempt }, { state: 'ready', attempt: 0 })
      }
    },
  },
]

/** These run one after the other, each with processes of its own. */
export const ALONE: readonly ConformanceCase[] = [
  {
    name: 'on SIGTERM a running job ends, and the worker after it',
    run: async (stage) => {
      const worker = stage.start()
      const id = await stage.enqueue('sleep', { ms: DRAIN_MS / 2 })
      await stage.begun(id)
      worker.signal('SIGTERM')
      const { state, result } = await stage.ended(id)
      same('the end', { state, result }, { state: 'succeeded', result: 1 })
      await worker.endedWithin(DRAIN_MS * 3)
    },
  },
  {
    name: 'on SIGTERM a job that takes too long goes back with its attempt',
    run: async (stage) => {
      const worker = stage.start()
      const id = await stage.enqueue('sleep', { ms: LONG_MS })
      await stage.begun(id)
      worker.signal('SIGTERM')
      const { attempt, crashes } = await stage.until(id, 'the job to go back', ({ state }) => state === 'ready')
      same('what it used up', { attempt, crashes }, { attempt: 0, crashes: 0 })
      await worker.endedWithin(DRAIN_MS * 3)
      await stage.holdfast.cancel(id)
    },
  },
  {
    name: 'the job of a worker that is killed runs again',
    run: async (stage) => {
      const first = stage.start()
      const id = await stage.enqueue('sleep', { ms: LEASE_MS / 2 })
      await stage.begun(id)
      first.signal('SIGKILL')
      const second = stage.start()
      const { state, result, crashes } = await stage.ended(id)
      same('the end', { state, result, crashes }, { state: 'succeeded', result: 2, crashes: 1 })
      second.signal('SIGTERM')
      await second.endedWithin(DRAIN_MS * 3)
    },
  },
  {
    name: 'a worker that stood still for longer than its lease settles nothing, and works on',
    run: async (stage) => {
      // With one slot it has no claim under way that the server could answer while it stands still.
      const first = stage.start({ concurrency: 1 })
      const id = await stage.enqueue('block', { ms: LEASE_MS * 0.75 })
      await stage.begun(id)
      first.signal('SIGSTOP')
      const second = stage.start()
      const ended = await stage.ended(id)
      same('the attempt that succeeded', ended.result, 2)
      second.signal('SIGTERM')
      await second.endedWithin(DRAIN_MS * 3)
      first.signal('SIGCONT')
      // Its handler ends now, and what it says must change nothing.
      const later = await stage.ended(await stage.enqueue('echo', 'next'))
      await sleep(LEASE_MS)
      const { state, result, worker, finishedAt } = (await stage.holdfast.get(id))!
      same(
        'the job',
        { state, result, worker, finishedAt },
        { state: 'succeeded', result: 2, worker: ended.worker, finishedAt: ended.finishedAt },
      )
      same('the next job', later.result, 'next')
      first.signal('SIGTERM')
      await first.endedWithin(DRAIN_MS * 3)
    },
  },
  {
    name: 'a server that is away for a moment loses no job',
    run: async (stage) => {
      const worker = stage.start()
      const id = await stage.enqueue('block', { ms: LEASE_MS * 0.75 })
      await stage.begun(id)
      await stage.serverAway(LEASE_MS / 4)
      // How long the server takes to end decides whether the lease outlives it: then the job runs a second time.
      same('the state', (await stage.ended(id)).state, 'succeeded')
      same('the next job', (await stage.ended(await stage.enqueue('echo', 'next'))).result, 'next')
      worker.signal('SIGTERM')
      await worker.endedWithin(DRAIN_MS * 3)
    },
  },
]
