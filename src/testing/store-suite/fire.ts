// Fire: the ticks of a schedule become jobs, each once.

import type { NewJob } from '../../core/job.js'
import type { Schedule } from '../../core/schedule.js'
import type { Store } from '../../core/store.js'
import type { FireRequest } from '../../core/upkeep-store.js'
import type { Facts } from './context.js'
import { keyed, MINUTE_MS, newJob, newSchedule, OPERATOR, START_MS, succeeded } from './samples.js'
import { claimIds, enqueueJob, everything, listIds, runNext, stateOf, viewOf } from './steps.js'

const NEXT_MS = START_MS + MINUTE_MS

/** Sets a schedule that is due at START_MS. */
async function setDue(store: Store, changes: Partial<Schedule> = {}): Promise<void> {
  await store.setSchedule(newSchedule(changes), START_MS, OPERATOR)
}

/** A firing of it with one job. */
function firing(changes: Partial<FireRequest> = {}): FireRequest {
  const ticks = [tick(START_MS)]
  return { name: 'nightly', expectedNextAtMs: START_MS, ticks, nextAtMs: NEXT_MS, ...changes }
}

function tick(tickMs: number, changes: Partial<NewJob> = {}): FireRequest['ticks'][number] {
  return { tickMs, job: newJob(changes) }
}

const made: Facts = {
  'a firing makes the job of its tick': async ({ store, expect }) => {
    await setDue(store)
    const request = firing()

    const fired = await store.fire(request)

    expect(fired).toEqual({ fired: true, jobs: [request.ticks[0]!.job.id] })
    expect(await claimIds(store)).toEqual(fired.jobs)
  },

  'the job of a tick shows its schedule and its tick': async ({ store, expect }) => {
    await setDue(store)

    const { jobs } = await store.fire(firing({ ticks: [tick(START_MS - 5_000)] }))

    expect((await viewOf(store, jobs[0]!)).schedule).toEqual({ name: 'nightly', tick: new Date(START_MS - 5_000) })
  },

  'a job that no schedule made shows none': async ({ store, expect }) => {
    expect((await viewOf(store, await enqueueJob(store))).schedule).toBe(null)
  },

  'the job of a tick is written as by an enqueue': async ({ store, expect }) => {
    await setDue(store)
    const facts = { payload: '{"n":1}', priority: 4, tags: ['reports'], version: 2 }

    const { jobs } = await store.fire(firing({ ticks: [tick(START_MS, facts)] }))

    expect(await viewOf(store, jobs[0]!)).toMatchObject({ ...facts, payload: { n: 1 }, state: 'ready', attempt: 0 })
  },

  'the job of a tick may have a time of its own': async ({ store, expect }) => {
    await setDue(store)

    const { jobs } = await store.fire(firing({ ticks: [tick(START_MS, { when: { delayMs: 1_000 } })] }))

    expect(await stateOf(store, jobs[0]!)).toBe('scheduled')
  },

  'a firing of several ticks makes their jobs oldest first': async ({ store, expect }) => {
    await setDue(store)
    const ticks = [tick(START_MS - 2), tick(START_MS - 1), tick(START_MS)]

    const { jobs } = await store.fire(firing({ ticks }))

    expect(jobs).toEqual(ticks.map(({ job }) => job.id))
    expect(await claimIds(store)).toEqual(jobs)
  },

  'a firing moves the schedule on': async ({ store, expect }) => {
    await setDue(store)

    const { jobs } = await store.fire(firing())

    expect((await store.schedules())[0]).toMatchObject({
      nextAt: new Date(NEXT_MS),
      lastAt: new Date(START_MS),
      lastJobId: jobs[0],
    })
  },

  'a firing without ticks moves the schedule on and keeps its last tick': async ({ store, expect }) => {
    await setDue(store)
    const { jobs } = await store.fire(firing({ nextAtMs: START_MS + 1 }))

    const fired = await store.fire(firing({ expectedNextAtMs: START_MS + 1, ticks: [] }))

    expect(fired).toEqual({ fired: true, jobs: [] })
    expect((await store.schedules())[0]).toMatchObject({
      nextAt: new Date(NEXT_MS),
      lastAt: new Date(START_MS),
      lastJobId: jobs[0],
    })
  },

  'a schedule without a further time is never due again': async ({ store, clock, expect }) => {
    await setDue(store)
    await store.fire(firing({ nextAtMs: null }))
    await clock.advance(10 * MINUTE_MS)

    expect(await store.due(10)).toMatchObject({ schedules: [], nextDueMs: null })
  },

  'a firing that was made is no longer due': async ({ store, expect }) => {
    await setDue(store)

    await store.fire(firing())

    expect((await store.due(10)).schedules).toEqual([])
  },

  'the queue of a tick is known from then on': async ({ store, expect }) => {
    await setDue(store)

    await store.fire(firing({ ticks: [tick(START_MS, { queue: 'reports' })] }))

    expect((await store.queues()).map(({ name }) => name)).toEqual(['reports'])
  },
}

const notMade: Facts = {
  'a schedule that does not exist does not fire': async ({ store, expect }) => {
    const fired = await store.fire(firing({ name: 'unheard-of' }))

    expect(fired).toEqual({ fired: false, jobs: [] })
    expect(await listIds(store)).toEqual([])
  },

  'a paused schedule does not fire': async ({ store, expect }) => {
    await setDue(store)
    await store.pauseSchedule('nightly', OPERATOR)
    const before = await everything(store)

    const fired = await store.fire(firing())

    expect(fired).toEqual({ fired: false, jobs: [] })
    expect(await everything(store)).toEqual(before)
  },

  'a schedule that has moved on does not fire again': async ({ store, expect }) => {
    await setDue(store)
    await store.fire(firing())
    const before = await everything(store)

    const fired = await store.fire(firing())

    expect(fired).toEqual({ fired: false, jobs: [] })
    expect(await everything(store)).toEqual(before)
  },

  'a tick makes a job only once, though its schedule came back to it': async ({ store, expect }) => {
    await setDue(store)
    await store.fire(firing())
    await store.resumeSchedule('nightly', START_MS, OPERATOR)

    const fired = await store.fire(firing())

    expect(fired).toEqual({ fired: true, jobs: [] })
  },

  'a tick makes a job only once, though its schedule was made anew': async ({ store, expect }) => {
    await setDue(store)
    await store.fire(firing())
    await store.removeSchedule('nightly', OPERATOR)
    await setDue(store)

    const fired = await store.fire(firing())

    expect(fired).toEqual({ fired: true, jobs: [] })
  },

  'ticks of two schedules at one time are two ticks': async ({ store, expect }) => {
    await setDue(store, { name: 'nightly' })
    await setDue(store, { name: 'hourly' })
    await store.fire(firing({ name: 'nightly' }))

    const { jobs } = await store.fire(firing({ name: 'hourly' }))

    expect(jobs).toHaveLength(1)
  },

  'a tick among others that was recorded before is passed over': async ({ store, expect }) => {
    await setDue(store)
    await store.fire(firing({ nextAtMs: START_MS + 1 }))
    const fresh = tick(START_MS + 1)

    const { jobs } = await store.fire(firing({ expectedNextAtMs: START_MS + 1, ticks: [tick(START_MS), fresh] }))

    expect(jobs).toEqual([fresh.job.id])
  },

  'a tick whose key is held makes no job': async ({ store, expect }) => {
    await setDue(store)
    await enqueueJob(store, keyed('report'))

    const fired = await store.fire(firing({ ticks: [tick(START_MS, keyed('report'))] }))

    expect(fired).toEqual({ fired: true, jobs: [] })
    expect((await store.schedules())[0]).toMatchObject({ lastAt: new Date(START_MS), lastJobId: null })
  },
}

const overlapping: Facts = {
  'a schedule that may overlap fires while its last job runs': async ({ store, expect }) => {
    await setDue(store, { overlap: 'allow' })
    await store.fire(firing({ nextAtMs: START_MS + 1 }))

    const { jobs } = await store.fire(firing({ expectedNextAtMs: START_MS + 1, ticks: [tick(START_MS + 1)] }))

    expect(jobs).toHaveLength(1)
  },

  'a schedule that may not overlap skips a tick while its last job is unfinished': async ({ store, expect }) => {
    await setDue(store, { overlap: 'skip' })
    const first = await store.fire(firing({ nextAtMs: START_MS + 1 }))

    const second = await store.fire(firing({ expectedNextAtMs: START_MS + 1, ticks: [tick(START_MS + 1)] }))

    expect(second).toEqual({ fired: true, jobs: [] })
    expect((await store.schedules())[0]).toMatchObject({ lastAt: new Date(START_MS + 1), lastJobId: first.jobs[0] })
  },

  'a schedule that may not overlap fires when its last job is finished': async ({ store, expect }) => {
    await setDue(store, { overlap: 'skip' })
    await store.fire(firing({ nextAtMs: START_MS + 1 }))
    await runNext(store, succeeded)

    const { jobs } = await store.fire(firing({ expectedNextAtMs: START_MS + 1, ticks: [tick(START_MS + 1)] }))

    expect(jobs).toHaveLength(1)
  },

  'a schedule that may not overlap makes one job of several ticks': async ({ store, expect }) => {
    await setDue(store, { overlap: 'skip' })
    const ticks = [tick(START_MS - 1), tick(START_MS)]

    const { jobs } = await store.fire(firing({ ticks }))

    expect(jobs).toEqual([ticks[0]!.job.id])
  },

  'a tick that was skipped is recorded all the same': async ({ store, expect }) => {
    await setDue(store, { overlap: 'skip' })
    await store.fire(firing({ ticks: [tick(START_MS - 1), tick(START_MS)] }))
    await runNext(store, succeeded)
    await store.resumeSchedule('nightly', START_MS, OPERATOR)

    const fired = await store.fire(firing({ ticks: [tick(START_MS)] }))

    expect(fired).toEqual({ fired: true, jobs: [] })
  },
}

export const fireFacts: Facts = { ...made, ...notMade, ...overlapping }
