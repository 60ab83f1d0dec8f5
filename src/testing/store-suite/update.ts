// Update: changes to a job that waits.

import { allows, JOB_STATES } from '../../core/states.js'
import { type Facts, factsFor } from './context.js'
import { MINUTE_MS, newId, newJobs, OPERATOR, SECOND_MS, START_MS, succeeded } from './samples.js'
import { claimIds, claimJob, enqueueEach, enqueueJob, jobIn, startJob, stateOf, viewOf } from './steps.js'

const LATER_MS = START_MS + 10 * MINUTE_MS

const priorities: Facts = {
  'a higher priority takes effect in the order of claiming': async ({ store, expect }) => {
    const [first, second] = await enqueueEach(store, [{}, {}])

    await store.update(second!, { priority: 1 }, OPERATOR)

    expect(await claimIds(store)).toEqual([second, first])
  },

  'a job keeps its place among those of its new priority': async ({ store, expect }) => {
    const [first, second, third] = await enqueueEach(store, [{ priority: 5 }, {}, { priority: 5 }])

    await store.update(second!, { priority: 5 }, OPERATOR)

    expect(await claimIds(store)).toEqual([first, second, third])
  },

  'a priority set and set back leaves the order as it was': async ({ store, expect }) => {
    const ids = await enqueueEach(store, [{}, {}, {}])

    await store.update(ids[1]!, { priority: 9 }, OPERATOR)
    await store.update(ids[1]!, { priority: 0 }, OPERATOR)

    expect(await claimIds(store)).toEqual(ids)
  },

  'a job in the front lane stays there with its new priority': async ({ store, clock, expect }) => {
    const [timed, backlog] = await enqueueEach(store, [{ when: { delayMs: SECOND_MS } }, { priority: 5 }])
    await clock.advance(SECOND_MS)
    await store.promote(1)

    await store.update(timed!, { priority: 5 }, OPERATOR)

    expect(await claimIds(store)).toEqual([timed, backlog])
  },

  ...factsFor(
    JOB_STATES.filter((state) => allows(state, 'update')),
    (state) => `the priority of a job that is ${state} can be changed`,
    async ({ store, expect }, state) => {
      const id = await jobIn(store, state)

      const answer = await store.update(id, { priority: -7 }, OPERATOR)

      expect(answer).toEqual({ id, result: 'updated', state })
      expect(await viewOf(store, id)).toMatchObject({ state, priority: -7 })
    },
  ),

  'a timed job is claimed with the priority it was given meanwhile': async ({ store, clock, expect }) => {
    const id = await jobIn(store, 'scheduled')
    await store.update(id, { priority: 3 }, OPERATOR)
    const backlog = await enqueueJob(store, { priority: 2 })
    await clock.advance(MINUTE_MS)
    await store.promote(1)

    expect(await claimIds(store)).toEqual([id, backlog])
  },

  'a blocked job is claimed with the priority it was given meanwhile': async ({ store, expect }) => {
    const parent = await startJob(store)
    const child = await enqueueJob(store, { after: [parent.id] })
    const backlog = await enqueueJob(store)
    await store.update(child, { priority: 1 }, OPERATOR)

    await store.settle([succeeded(parent)])

    expect(await claimIds(store)).toEqual([child, backlog])
  },
}

const times: Facts = {
  'a ready job that gets a time is scheduled': async ({ store, expect }) => {
    const id = await enqueueJob(store)

    const answer = await store.update(id, { runAtMs: LATER_MS }, OPERATOR)

    expect(answer).toEqual({ id, result: 'updated', state: 'scheduled' })
    expect(await viewOf(store, id)).toMatchObject({ state: 'scheduled', runAt: new Date(LATER_MS) })
  },

  'a ready job that got a time is not claimed before it': async ({ store, expect }) => {
    const id = await enqueueJob(store)

    await store.update(id, { runAtMs: LATER_MS }, OPERATOR)

    expect(await claimIds(store)).toEqual([])
  },

  'a ready job that got a time and a priority has both': async ({ store, expect }) => {
    const id = await enqueueJob(store)

    await store.update(id, { runAtMs: LATER_MS, priority: 4 }, OPERATOR)

    expect(await viewOf(store, id)).toMatchObject({ runAt: new Date(LATER_MS), priority: 4 })
  },

  'a ready job with an attempt behind it keeps it when it gets a time': async ({ store, clock, expect }) => {
    const id = await jobIn(store, 'retrying')
    await clock.advance(MINUTE_MS)
    await store.promote(1)

    await store.update(id, { runAtMs: LATER_MS }, OPERATOR)

    expect(await viewOf(store, id)).toMatchObject({ state: 'scheduled', attempt: 1 })
  },

  'the time of a scheduled job can be moved': async ({ store, expect }) => {
    const id = await jobIn(store, 'scheduled')

    const answer = await store.update(id, { runAtMs: LATER_MS }, OPERATOR)

    expect(answer).toMatchObject({ state: 'scheduled' })
    expect((await viewOf(store, id)).runAt).toEqual(new Date(LATER_MS))
  },

  'the time of a retry can be moved, and it stays a retry': async ({ store, expect }) => {
    const id = await jobIn(store, 'retrying')

    const answer = await store.update(id, { runAtMs: LATER_MS }, OPERATOR)

    expect(answer).toMatchObject({ state: 'retrying' })
    expect((await viewOf(store, id)).runAt).toEqual(new Date(LATER_MS))
  },

  'a blocked job that gets a time keeps waiting with it': async ({ store, expect }) => {
    const id = await jobIn(store, 'blocked')

    const answer = await store.update(id, { runAtMs: LATER_MS }, OPERATOR)

    expect(answer).toMatchObject({ state: 'blocked' })
    expect((await viewOf(store, id)).runAt).toEqual(new Date(LATER_MS))
  },

  'a blocked job that loses its time has none': async ({ store, expect }) => {
    const id = await jobIn(store, 'blocked', { when: { delayMs: MINUTE_MS } })

    await store.update(id, { runAtMs: null }, OPERATOR)

    expect(await viewOf(store, id)).toMatchObject({ state: 'blocked', runAt: null })
  },

  ...factsFor(
    [
      { state: 'scheduled', what: 'no time', runAtMs: null },
      { state: 'scheduled', what: 'a time that has passed', runAtMs: START_MS - MINUTE_MS },
      { state: 'retrying', what: 'no time', runAtMs: null },
      { state: 'retrying', what: 'a time that has passed', runAtMs: START_MS - MINUTE_MS },
    ],
    ({ state, what }) => `a job that is ${state} and gets ${what} is due now`,
    async ({ store, clock, expect }, { state, runAtMs }) => {
      const id = await jobIn(store, state)
      await clock.advance(SECOND_MS)

      const answer = await store.update(id, { runAtMs }, OPERATOR)

      expect(answer).toEqual({ id, result: 'updated', state })
      expect((await viewOf(store, id)).runAt).toEqual(new Date(START_MS + SECOND_MS))
    },
  ),

  'a scheduled job that is due now is ready after the next promotion': async ({ store, expect }) => {
    const id = await jobIn(store, 'scheduled')
    await store.update(id, { runAtMs: null }, OPERATOR)

    await store.promote(1)

    expect(await stateOf(store, id)).toBe('ready')
  },

  'a ready job that gets no time stays as it is': async ({ store, expect }) => {
    const [first, second] = await enqueueEach(store, [{}, {}])

    const answer = await store.update(first!, { runAtMs: null }, OPERATOR)

    expect(answer).toMatchObject({ state: 'ready' })
    expect(await claimIds(store)).toEqual([first, second])
  },

  'a ready job that gets a time that has passed stays as it is': async ({ store, expect }) => {
    const [first, second] = await enqueueEach(store, [{}, {}])

    const answer = await store.update(second!, { runAtMs: START_MS }, OPERATOR)

    expect(answer).toMatchObject({ state: 'ready' })
    expect(await claimIds(store)).toEqual([first, second])
  },

  'a change without a time leaves the time': async ({ store, expect }) => {
    const id = await jobIn(store, 'scheduled')

    await store.update(id, { priority: 1 }, OPERATOR)

    expect((await viewOf(store, id)).runAt).toEqual(new Date(START_MS + MINUTE_MS))
  },
}

const payloads: Facts = {
  ...factsFor(
    JOB_STATES.filter((state) => allows(state, 'update')),
    (state) => `the payload of a job that is ${state} can be replaced`,
    async ({ store, expect }, state) => {
      const id = await jobIn(store, state, { payload: '1' })

      const answer = await store.update(id, { payload: '{"two":2}' }, OPERATOR)

      expect(answer).toMatchObject({ state })
      expect((await viewOf(store, id)).payload).toEqual({ two: 2 })
    },
  ),

  'a worker gets the payload that was put in place': async ({ store, expect }) => {
    const id = await enqueueJob(store, { payload: '1' })

    await store.update(id, { payload: '2' }, OPERATOR)

    expect((await claimJob(store)).payload).toBe('2')
  },

  'a change of one job leaves the others': async ({ store, expect }) => {
    const jobs = newJobs(2, { payload: '1' })
    await store.enqueue(jobs)

    await store.update(jobs[0]!.id, { payload: '2', priority: 3 }, OPERATOR)

    expect(await viewOf(store, jobs[1]!.id)).toMatchObject({ payload: 1, priority: 0 })
  },

  'a change of nothing is an update': async ({ store, expect }) => {
    const id = await enqueueJob(store)

    expect(await store.update(id, {}, OPERATOR)).toEqual({ id, result: 'updated', state: 'ready' })
  },
}

const refused: Facts = {
  ...factsFor(
    JOB_STATES.filter((state) => !allows(state, 'update')),
    (state) => `a job that is ${state} cannot be changed`,
    async ({ store, expect }, state) => {
      const id = await jobIn(store, state, { payload: '1' })

      const answer = await store.update(id, { payload: '2', priority: 5, runAtMs: LATER_MS }, OPERATOR)

      expect(answer).toEqual({ id, result: 'refused', state })
      expect(await viewOf(store, id)).toMatchObject({ state, payload: 1, priority: 0, runAt: null })
    },
  ),

  'a job that does not exist cannot be changed': async ({ store, expect }) => {
    const id = newId()

    expect(await store.update(id, { priority: 1 }, OPERATOR)).toEqual({ id, result: 'missing' })
  },
}

export const updateFacts: Facts = { ...priorities, ...times, ...payloads, ...refused }
