// Debounce and replace through the whole life of a job: retries, rescue, cancel, requeue, keys that last for a time.

import type { ReplaceRule } from '../../core/flow/carried.js'
import type { NewJob } from '../../core/job.js'
import type { JobState } from '../../core/states.js'
import { type Facts, factsFor } from './context.js'
import {
  cancelled,
  crashed,
  dead,
  keyed,
  LEASE_MS,
  MINUTE_MS,
  newJob,
  OPERATOR,
  released,
  retrying,
  SECOND_MS,
  START_MS,
  snoozed,
  succeeded,
} from './samples.js'
import { claimJob, claimJobs, jobIn, runNext, stateOf, viewOf } from './steps.js'

const KEY = 'doc:1'
const TRACE = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
const NOW: ReplaceRule = { waitMs: 0, maxWaitMs: null }
const IN_5S: ReplaceRule = { waitMs: 5_000, maxWaitMs: 12_000 }

function version(number: number, changes: Partial<NewJob> = {}): NewJob {
  return newJob({ ...keyed(KEY), replace: NOW, payload: `{"version":${number}}`, version: number, ...changes })
}

const WAITING: readonly JobState[] = ['scheduled', 'ready', 'blocked', 'retrying']

export const replaceLifeFacts: Facts = {
  ...factsFor(
    WAITING,
    (state) => `a ${state} job takes payload, version and tags, and keeps everything else`,
    async ({ store, expect }, state) => {
      const id = await jobIn(store, state, { ...keyed(KEY), priority: 3, tags: ['old'] })
      const newer = version(7, { priority: 9, type: 'another', tags: ['new'] })

      expect(await store.enqueue([newer])).toEqual([{ id, created: false, replaced: true, state }])

      const view = await viewOf(store, id)
      expect(view).toMatchObject({ payload: { version: 7 }, version: 7, tags: ['new'], priority: 3, state })
      expect(view.type).toBe('send_email')
      expect(view.idempotencyKey).toBe(KEY)
    },
  ),

  'a job has the trace of the payload it runs': async ({ store, expect }) => {
    await store.enqueue([version(1, { trace: TRACE, limits: { maxAttempts: 7 } })])
    await store.enqueue([version(2)])
    const untraced = await claimJob(store)
    await store.settle([succeeded(untraced)])
    await store.enqueue([version(3)])
    await store.enqueue([version(4, { trace: TRACE })])

    expect([untraced.trace, untraced.limits]).toEqual([null, { maxAttempts: 7 }])
    expect((await claimJob(store)).trace).toBe(TRACE)
  },

  'while a successor waits, the newest payload is its own, also when the job before it retries': async ({
    store,
    clock,
    expect,
  }) => {
    const first = version(1)
    await store.enqueue([first])
    const running = await claimJob(store)
    const next = version(2)
    await store.enqueue([next])
    await store.settle([retrying(running, SECOND_MS)])

    expect(await store.enqueue([version(3)])).toMatchObject([{ id: next.id, replaced: true, state: 'blocked' }])

    await clock.advance(SECOND_MS)
    await store.promote(10)
    expect((await claimJob(store)).payload).toBe('{"version":1}')
  },

  'a successor waits for its quiet time from its own calls': async ({ store, clock, expect }) => {
    await store.enqueue([version(1)])
    const running = await claimJob(store)
    const next = version(2, { replace: IN_5S })
    await store.enqueue([next])
    await clock.advance(2 * SECOND_MS)
    await store.enqueue([version(3, { replace: IN_5S })])
    await store.settle([succeeded(running)])

    expect(await viewOf(store, next.id)).toMatchObject({ state: 'scheduled', runAt: new Date(START_MS + 7_000) })
  },

  'a snoozed job takes the payload, and its time is that of the rule': async ({ store, expect }) => {
    const job = version(1)
    await store.enqueue([job])
    await store.settle([snoozed(await claimJob(store), MINUTE_MS)])

    expect(await store.enqueue([version(2, { replace: IN_5S })])).toMatchObject([{ id: job.id, state: 'scheduled' }])
    expect((await viewOf(store, job.id)).runAt).toEqual(new Date(START_MS + 5_000))
  },

  'a released job takes the payload': async ({ store, expect }) => {
    const job = version(1)
    await store.enqueue([job])
    await store.settle([released(await claimJob(store))])

    expect(await store.enqueue([version(2)])).toMatchObject([{ id: job.id, replaced: true, state: 'ready' }])
    expect(await claimJobs(store)).toMatchObject([{ id: job.id, payload: '{"version":2}' }])
  },

  'a rescued job takes the payload, and a successor written before waits on': async ({ store, clock, expect }) => {
    const job = version(1)
    await store.enqueue([job])
    const lost = await claimJob(store)
    const next = version(2)
    await store.enqueue([next])
    await clock.advance(LEASE_MS + 1)
    await store.settle([crashed(lost, 0)], { onlyExpired: true })
    await store.promote(10)

    expect(await stateOf(store, next.id)).toBe('blocked')
    expect(await store.enqueue([version(3)])).toMatchObject([{ id: next.id, replaced: true }])
    await runNext(store, succeeded)
    expect(await claimJobs(store)).toMatchObject([{ id: next.id, payload: '{"version":3}' }])
  },

  'a cancelled running job passes its key on to its successor': async ({ store, expect }) => {
    await store.enqueue([version(1)])
    const running = await claimJob(store)
    const next = version(2)
    await store.enqueue([next])
    await store.cancel([running.id], OPERATOR)
    await store.settle([cancelled(running)])

    expect(await store.enqueue([version(3)])).toMatchObject([{ id: next.id, replaced: true, state: 'ready' }])
  },

  'a job that retries and its successor, cancelled together, free the key': async ({ store, expect }) => {
    const job = version(1)
    await store.enqueue([job])
    const running = await claimJob(store)
    const next = version(2)
    await store.enqueue([next])
    await store.settle([retrying(running, MINUTE_MS)])
    await store.cancel([next.id, job.id], OPERATOR)

    expect(await store.enqueue([version(3)])).toMatchObject([{ created: true, state: 'ready' }])
  },

  'a dead job cannot be requeued while its successor has the key': async ({ store, expect }) => {
    await store.enqueue([version(1)])
    const running = await claimJob(store)
    const next = version(2)
    await store.enqueue([next])
    await store.settle([dead(running)])

    expect(await store.requeue([running.id], OPERATOR)).toEqual([
      { id: running.id, result: 'refused', state: 'dead', heldBy: next.id },
    ])
  },

  'a requeued job has its key again and takes payloads': async ({ store, expect }) => {
    const job = version(1)
    await store.enqueue([job])
    await store.settle([dead(await claimJob(store))])
    await store.requeue([job.id], OPERATOR)

    expect(await store.enqueue([version(2)])).toMatchObject([{ id: job.id, replaced: true, state: 'ready' }])
  },

  'a job without the rule is kept away by a successor as well': async ({ store, expect }) => {
    await store.enqueue([version(1)])
    const running = await claimJob(store)
    const next = version(2)
    await store.enqueue([next])
    await store.settle([succeeded(running)])

    expect(await store.enqueue([newJob(keyed(KEY))])).toEqual([{ id: next.id, created: false, state: 'ready' }])
  },

  'a key that lasts for a time keeps payloads away once its job has finished': async ({ store, clock, expect }) => {
    const job = newJob(keyed(KEY, MINUTE_MS))
    await store.enqueue([job])
    await runNext(store, succeeded)

    expect(await store.enqueue([version(2)])).toEqual([{ id: job.id, created: false, state: 'succeeded' }])
    await clock.advance(MINUTE_MS)
    expect(await store.enqueue([version(3)])).toMatchObject([{ created: true }])
  },

  'a job whose key lasts for a time takes payloads while it waits': async ({ store, expect }) => {
    const job = newJob(keyed(KEY, MINUTE_MS))
    await store.enqueue([job])

    expect(await store.enqueue([version(2)])).toMatchObject([{ id: job.id, replaced: true }])
  },

  'jobs of one call replace the payload of a waiting one, and all learn its id': async ({ store, expect }) => {
    const job = version(1)
    await store.enqueue([job])
    const jobs = [version(2), version(3), newJob(), version(4)]

    const answers = await store.enqueue(jobs)

    expect(answers.map((answer) => ('replaced' in answer ? answer.id : null))).toEqual([job.id, job.id, null, job.id])
    expect((await viewOf(store, job.id)).payload).toEqual({ version: 4 })
  },

  'jobs of one call make one successor': async ({ store, expect }) => {
    await store.enqueue([version(1)])
    const running = await claimJob(store)
    const jobs = [version(2), version(3)]

    expect(await store.enqueue(jobs)).toEqual([
      { id: jobs[0]!.id, created: true, state: 'blocked' },
      { id: jobs[0]!.id, created: false, replaced: true, state: 'blocked' },
    ])
    await store.settle([succeeded(running)])
    expect(await claimJobs(store)).toMatchObject([{ id: jobs[0]!.id, payload: '{"version":3}' }])
  },

  'jobs of one call with two rules make one successor, whose time is that of the first and then of the last': async ({
    store,
    expect,
  }) => {
    await store.enqueue([version(1), version(1, keyed('other'))])
    await claimJobs(store)
    const [now, later] = [version(2), version(2, { ...keyed('other'), replace: IN_5S })]

    await store.enqueue([now, version(3, { replace: IN_5S }), later, version(3, keyed('other'))])

    expect([(await viewOf(store, now.id)).runAt, (await viewOf(store, later.id)).runAt]).toEqual([
      null,
      new Date(START_MS),
    ])
  },

  'a successor is shown with the job it comes after': async ({ store, expect }) => {
    await store.enqueue([version(1)])
    const running = await claimJob(store)
    const next = version(2)
    await store.enqueue([next])

    expect(await viewOf(store, next.id)).toMatchObject({ after: [running.id], onParentDead: 'run' })
  },
}
