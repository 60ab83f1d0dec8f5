// Settle: the end of a lease, and where it puts the job.

import { leaseOf } from '../../core/job.js'
import { BATCH_MAX } from '../../core/job-store.js'
import { type Facts, factsFor } from './context.js'
import {
  cancelled,
  dead,
  LEASE_MS,
  newJobs,
  newNote,
  OPERATOR,
  released,
  retrying,
  SECOND_MS,
  START_MS,
  snoozed,
  succeeded,
} from './samples.js'
import { claimIds, claimJob, claimJobs, codeOf, startJob, stateOf, statesOf, viewOf } from './steps.js'

const endings: Facts = {
  'a settled job is never claimed again': async ({ store, expect }) => {
    const job = await startJob(store)

    await store.settle([succeeded(job)])

    expect(await claimIds(store)).toEqual([])
  },

  'a settlement answers with the lease and where the job went': async ({ store, expect }) => {
    const job = await startJob(store)

    const answers = await store.settle([succeeded(job)])

    expect(answers).toEqual([{ ...leaseOf(job), result: 'settled', state: 'succeeded' }])
  },

  'many successes and a few other ends are answered each in its place': async ({ store, expect }) => {
    await store.enqueue(newJobs(40))
    const jobs = await claimJobs(store)
    const endOf = (index: number) => (index % 10 === 3 ? retrying : index % 10 === 6 ? dead : succeeded)

    const answers = await store.settle(jobs.map((job, index) => endOf(index)(job)))

    const states = jobs.map((_, index) => (index % 10 === 3 ? 'retrying' : index % 10 === 6 ? 'dead' : 'succeeded'))
    expect(answers).toEqual(jobs.map((job, index) => ({ ...leaseOf(job), result: 'settled', state: states[index] })))
    expect(
      await statesOf(
        store,
        jobs.map(({ id }) => id),
      ),
    ).toEqual(states)
  },

  'of a lease that is settled twice in one call the first end counts': async ({ store, expect }) => {
    await store.enqueue(newJobs(40))
    const jobs = await claimJobs(store)

    await store.settle([retrying(jobs[0]!), ...jobs.map((job) => succeeded(job))])

    expect(await stateOf(store, jobs[0]!.id)).toBe('retrying')
    expect(await stateOf(store, jobs[1]!.id)).toBe('succeeded')
  },

  'a job that succeeds keeps its result, its worker and its times': async ({ store, clock, expect }) => {
    const job = await startJob(store, {}, { worker: 'worker-b' })
    await clock.advance(SECOND_MS)

    await store.settle([succeeded(job, { result: '{"sent":true}', ranMs: 400 })])

    expect(await viewOf(store, job.id)).toMatchObject({
      state: 'succeeded',
      result: { sent: true },
      worker: 'worker-b',
      startedAt: new Date(START_MS + 600),
      finishedAt: new Date(START_MS + SECOND_MS),
    })
  },

  'a job whose handler never ran is shown as started when it was claimed': async ({ store, clock, expect }) => {
    const job = await startJob(store)
    await clock.advance(SECOND_MS)

    await store.settle([dead(job, { ranMs: null })])

    expect((await viewOf(store, job.id)).startedAt).toEqual(new Date(START_MS))
  },

  'a finished job shows no lease': async ({ store, expect }) => {
    const job = await startJob(store)

    await store.settle([succeeded(job)])

    expect(await viewOf(store, job.id)).toMatchObject({ leasedUntil: null, runAt: null, cancelRequested: false })
  },

  'a job that ends as cancelled keeps its result, its worker and its times': async ({ store, clock, expect }) => {
    const job = await startJob(store)
    await clock.advance(SECOND_MS)

    await store.settle([cancelled(job, { result: '7', ranMs: SECOND_MS })])

    expect(await viewOf(store, job.id)).toMatchObject({
      state: 'cancelled',
      result: 7,
      worker: 'worker-a',
      startedAt: new Date(START_MS),
      finishedAt: new Date(START_MS + SECOND_MS),
    })
  },

  'a job that dies keeps its reason, its error, its worker and its times': async ({ store, clock, expect }) => {
    const job = await startJob(store)
    const error = { name: 'TypeError', message: 'x is not a function', code: 'E1', stack: 'at x' }
    await clock.advance(SECOND_MS)

    await store.settle([dead(job, { reason: 'invalid', error, ranMs: 1 })])

    expect(await viewOf(store, job.id)).toMatchObject({
      state: 'dead',
      reason: 'invalid',
      error,
      worker: 'worker-a',
      startedAt: new Date(START_MS + 999),
      finishedAt: new Date(START_MS + SECOND_MS),
    })
  },

  ...factsFor(
    ['attempts', 'dropped', 'expired', 'crashed', 'invalid'],
    (reason) => `a job can be dead for the reason ${reason}`,
    async ({ store, expect }, reason) => {
      const job = await startJob(store)

      await store.settle([dead(job, { reason })])

      expect((await viewOf(store, job.id)).reason).toBe(reason)
    },
  ),

  'a settlement sets attempt and crashes': async ({ store, expect }) => {
    const job = await startJob(store)

    await store.settle([dead({ ...job, attempt: 8, crashes: 3 })])

    expect(await viewOf(store, job.id)).toMatchObject({ attempt: 8, crashes: 3 })
  },

  'progress and log lines outlive the lease': async ({ store, expect }) => {
    const job = await startJob(store)
    await store.note([newNote(job, { progress: '0.5', logs: [{ atMs: START_MS, text: 'half way' }] })])

    await store.settle([succeeded(job)])

    const { progress, logs } = await viewOf(store, job.id)
    expect({ progress, logs }).toEqual({ progress: 0.5, logs: [{ at: new Date(START_MS), text: 'half way' }] })
  },

  'a lease that has run out can be settled until it is rescued': async ({ store, clock, expect }) => {
    const job = await startJob(store)
    await clock.advance(2 * LEASE_MS)

    const [answer] = await store.settle([succeeded(job)])

    expect(answer).toMatchObject({ result: 'settled', state: 'succeeded' })
  },
}

const goingOn: Facts = {
  'a retry waits out its delay from the moment of the settlement': async ({ store, clock, expect }) => {
    const job = await startJob(store)
    await clock.advance(SECOND_MS)

    await store.settle([retrying(job, 5_000)])

    expect(await viewOf(store, job.id)).toMatchObject({
      state: 'retrying',
      runAt: new Date(START_MS + SECOND_MS + 5_000),
      startedAt: null,
      worker: null,
      finishedAt: null,
    })
  },

  'a retry is not claimed before it is due': async ({ store, expect }) => {
    const job = await startJob(store)

    await store.settle([retrying(job)])

    expect(await claimIds(store)).toEqual([])
  },

  'a retry without delay is due at once': async ({ store, expect }) => {
    const job = await startJob(store)
    await store.settle([retrying(job, 0)])

    await store.promote(1)

    expect(await claimIds(store)).toEqual([job.id])
  },

  'the next attempt is counted on from the last': async ({ store, expect }) => {
    await store.settle([retrying(await startJob(store), 0)])
    await store.promote(1)

    expect((await claimJob(store)).attempt).toBe(2)
  },

  'a snoozed job waits for its time and has its attempt back': async ({ store, expect }) => {
    const job = await startJob(store)

    await store.settle([snoozed(job, 5_000)])

    expect(await viewOf(store, job.id)).toMatchObject({
      state: 'scheduled',
      attempt: 0,
      runAt: new Date(START_MS + 5_000),
    })
  },

  'a released job is ready and has its attempt back': async ({ store, expect }) => {
    const job = await startJob(store)

    await store.settle([released(job)])

    expect(await viewOf(store, job.id)).toMatchObject({ state: 'ready', attempt: 0, worker: null, leasedUntil: null })
  },

  'crashes are counted on from claim to claim': async ({ store, expect }) => {
    const job = await startJob(store)
    await store.settle([retrying({ ...job, crashes: 2 }, 0)])
    await store.promote(1)

    expect((await claimJob(store)).crashes).toBe(2)
  },
}

const cancelWishes: Facts = {
  ...factsFor(
    Object.entries({ retry: retrying, snooze: snoozed, release: released }),
    ([what]) => `a ${what} becomes cancelled when somebody asked for it`,
    async ({ store, expect }, [, settle]) => {
      const job = await startJob(store)
      await store.cancel([job.id], OPERATOR)

      const [answer] = await store.settle([settle(job)])

      expect(answer).toMatchObject({ result: 'settled', state: 'cancelled' })
      expect(await stateOf(store, job.id)).toBe('cancelled')
    },
  ),

  'a job that succeeds first has succeeded, whoever asked to cancel it': async ({ store, expect }) => {
    const job = await startJob(store)
    await store.cancel([job.id], OPERATOR)

    await store.settle([succeeded(job)])

    expect(await stateOf(store, job.id)).toBe('succeeded')
  },

  'a job that dies first is dead, whoever asked to cancel it': async ({ store, expect }) => {
    const job = await startJob(store)
    await store.cancel([job.id], OPERATOR)

    await store.settle([dead(job)])

    expect(await stateOf(store, job.id)).toBe('dead')
  },

  'a retry that becomes cancelled shows when it ended and who ran it': async ({ store, clock, expect }) => {
    const job = await startJob(store)
    await store.cancel([job.id], OPERATOR)
    await clock.advance(SECOND_MS)

    await store.settle([retrying(job, 5_000, { ranMs: 100 })])

    expect(await viewOf(store, job.id)).toMatchObject({
      runAt: null,
      worker: 'worker-a',
      startedAt: new Date(START_MS + 900),
      finishedAt: new Date(START_MS + SECOND_MS),
    })
  },
}

const batches: Facts = {
  'an empty list settles nothing': async ({ store, expect }) => {
    expect(await store.settle([])).toEqual([])
  },

  'the largest number of leases is settled in one call': async ({ store, expect }) => {
    await store.enqueue(newJobs(BATCH_MAX))
    const jobs = await claimJobs(store)

    const answers = await store.settle(jobs.map((job) => succeeded(job, { result: '{"sent":true}' })))

    expect(answers.filter(({ state }) => state === 'succeeded')).toHaveLength(BATCH_MAX)
  },

  'more settlements than the largest number are refused whole': async ({ store, expect }) => {
    const job = await startJob(store)

    const code = await codeOf(store.settle(Array(BATCH_MAX + 1).fill(succeeded(job))))

    expect(code).toBe('invalid_option')
    expect(await stateOf(store, job.id)).toBe('running')
  },

  'a call may settle its jobs in every way at once': async ({ store, expect }) => {
    await store.enqueue(newJobs(6))
    const ways = [succeeded, cancelled, retrying, snoozed, released, dead]
    const jobs = await claimJobs(store)

    const answers = await store.settle(jobs.map((job, index) => ways[index]!(job)))

    const states = ['succeeded', 'cancelled', 'retrying', 'scheduled', 'ready', 'dead']
    expect(answers.map(({ state }) => state)).toEqual(states)
  },
}

export const settleFacts: Facts = { ...endings, ...goingOn, ...cancelWishes, ...batches }
