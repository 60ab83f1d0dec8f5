// Failed attempts: kept with who, when and why, as long as the job.

import type { Facts } from './context.js'
import {
  dead,
  FAILURE,
  LEASE_MS,
  OPERATOR,
  released,
  retrying,
  SECOND_MS,
  START_MS,
  snoozed,
  succeeded,
} from './samples.js'
import { claimJob, startJob, viewOf } from './steps.js'

const kept: Facts = {
  'a failed attempt is kept with its number, its worker, its times and its error': async (scene) => {
    const { store, clock, expect } = scene
    const job = await startJob(store, {}, { worker: 'worker-b' })
    await clock.advance(SECOND_MS)

    await store.settle([retrying(job, 0, { ranMs: 300 })])

    expect((await viewOf(store, job.id)).attempts).toEqual([
      {
        attempt: 1,
        worker: 'worker-b',
        startedAt: new Date(START_MS + 700),
        finishedAt: new Date(START_MS + SECOND_MS),
        error: FAILURE,
      },
    ])
  },

  'failed attempts are shown oldest first': async ({ store, expect }) => {
    const { id } = await startJob(store).then((job) => store.settle([retrying(job, 0)]).then(() => job))
    await store.promote(1)
    const second = await claimJob(store)

    await store.settle([dead(second)])

    expect((await viewOf(store, id)).attempts.map(({ attempt }) => attempt)).toEqual([1, 2])
  },

  'an attempt without an error is not kept': async ({ store, expect }) => {
    const job = await startJob(store)

    await store.settle([succeeded(job)])

    expect((await viewOf(store, job.id)).attempts).toEqual([])
  },

  'an attempt that is given back is kept under the number it ran with': async ({ store, expect }) => {
    const job = await startJob(store)

    await store.settle([snoozed(job, SECOND_MS, { error: FAILURE })])

    expect((await viewOf(store, job.id)).attempts.map(({ attempt }) => attempt)).toEqual([1])
  },

  'an attempt whose handler never ran began with its claim': async ({ store, clock, expect }) => {
    const job = await startJob(store)
    await clock.advance(SECOND_MS)

    await store.settle([retrying(job, 0, { ranMs: null })])

    expect((await viewOf(store, job.id)).attempts[0]!.startedAt).toEqual(new Date(START_MS))
  },

  'attempts of two claims in one millisecond are both kept': async ({ store, expect }) => {
    const first = await startJob(store)
    await store.settle([released(first, { error: FAILURE })])
    const second = await claimJob(store)

    await store.settle([released(second, { error: FAILURE })])

    expect((await viewOf(store, first.id)).attempts).toHaveLength(2)
  },

  'a rescued attempt is kept under the worker that held it': async ({ store, clock, expect }) => {
    const job = await startJob(store, {}, { worker: 'worker-b' })
    await clock.advance(LEASE_MS)

    await store.settle([retrying(job, 0)], { onlyExpired: true })

    expect((await viewOf(store, job.id)).attempts[0]).toMatchObject({ attempt: 1, worker: 'worker-b' })
  },

  'a retry that becomes cancelled keeps its failed attempt': async ({ store, expect }) => {
    const job = await startJob(store)
    await store.cancel([job.id], OPERATOR)

    await store.settle([retrying(job)])

    expect((await viewOf(store, job.id)).attempts).toHaveLength(1)
  },

  'a lost settlement leaves no attempt': async ({ store, expect }) => {
    const first = await startJob(store)
    await store.settle([released(first)])
    await claimJob(store)

    await store.settle([dead(first)])

    expect((await viewOf(store, first.id)).attempts).toEqual([])
  },

  'an error without code and stack is kept without them': async ({ store, expect }) => {
    const job = await startJob(store)

    await store.settle([retrying(job, 0, { error: { name: 'E', message: '' } })])

    expect((await viewOf(store, job.id)).attempts[0]!.error).toEqual({ name: 'E', message: '' })
  },
}

const shown: Facts = {
  'a job shows the error of its last failed attempt': async ({ store, expect }) => {
    await store.settle([retrying(await startJob(store), 0)])
    await store.promote(1)
    const second = await claimJob(store)
    const error = { name: 'Error', message: 'second' }

    await store.settle([retrying(second, 0, { error })])

    expect((await viewOf(store, second.id)).error).toEqual(error)
  },

  'a running job shows the error of the attempt before': async ({ store, expect }) => {
    await store.settle([retrying(await startJob(store), 0)])
    await store.promote(1)

    const { id } = await claimJob(store)

    expect((await viewOf(store, id)).error).toEqual(FAILURE)
  },

  'a job that succeeds after a failure still shows the failure': async ({ store, expect }) => {
    await store.settle([retrying(await startJob(store), 0)])
    await store.promote(1)
    const second = await claimJob(store)

    await store.settle([succeeded(second)])

    expect(await viewOf(store, second.id)).toMatchObject({ state: 'succeeded', error: FAILURE })
  },

  'a job that died without an error of its own shows that of its last attempt': async ({ store, expect }) => {
    await store.settle([retrying(await startJob(store), 0)])
    await store.promote(1)
    const second = await claimJob(store)

    await store.settle([dead(second, { reason: 'expired', error: null })])

    expect(await viewOf(store, second.id)).toMatchObject({ reason: 'expired', error: FAILURE })
  },

  'a job that never failed shows no error': async ({ store, expect }) => {
    const { id } = await startJob(store)

    expect((await viewOf(store, id)).error).toBe(null)
  },
}

export const attemptFacts: Facts = { ...kept, ...shown }
