// List: jobs newest first, page by page, narrowed by a filter.

import type { JobFilter } from '../../core/job-filter.js'
import { PAGE_MAX } from '../../core/operator-store.js'
import { JOB_STATES } from '../../core/states.js'
import { type Facts, factsFor } from './context.js'
import { idAt, newJobs, START_MS } from './samples.js'
import { codeOf, enqueueJob, jobIn, listIds, viewOf } from './steps.js'

/** What a list leaves out. */
const HEAVY: readonly string[] = ['payload', 'result', 'attempts', 'progress', 'logs', 'requeues']

const pages: Facts = {
  'an empty store lists nothing': async ({ store, expect }) => {
    const page = await store.list({ filter: {}, limit: 10, before: null })

    expect(page).toEqual({ jobs: [], next: null, searched: 0, searchedTo: null })
  },

  'jobs are listed newest first': async ({ store, expect }) => {
    const jobs = newJobs(5)
    await store.enqueue(jobs)

    expect(await listIds(store)).toEqual(jobs.map(({ id }) => id).reverse())
  },

  'the newest is the one with the largest id, whenever it was enqueued': async ({ store, expect }) => {
    const newer = await enqueueJob(store, { id: idAt(START_MS + 1_000) })
    const older = await enqueueJob(store, { id: idAt(START_MS - 1_000) })

    expect(await listIds(store)).toEqual([newer, older])
  },

  'a page holds no more than its limit': async ({ store, expect }) => {
    await store.enqueue(newJobs(5))

    const page = await store.list({ filter: {}, limit: 2, before: null })

    expect(page.jobs).toHaveLength(2)
  },

  'a page that is not the last tells where the next one continues': async ({ store, expect }) => {
    const jobs = newJobs(3)
    await store.enqueue(jobs)

    const page = await store.list({ filter: {}, limit: 2, before: null })

    expect(page.next).toBe(jobs[1]!.id)
  },

  'pages together hold every job once': async ({ store, expect }) => {
    const jobs = newJobs(7)
    await store.enqueue(jobs)

    expect(await listIds(store, {}, 2)).toEqual(jobs.map(({ id }) => id).reverse())
  },

  'pages of a filter together hold every job that matches once': async ({ store, expect }) => {
    const jobs = newJobs(12).map((job, index) => ({ ...job, type: index % 3 === 0 ? 'even' : 'odd' }))
    await store.enqueue(jobs)

    const ids = await listIds(store, { types: ['even'] }, 1)

    expect(ids).toEqual([jobs[9]!.id, jobs[6]!.id, jobs[3]!.id, jobs[0]!.id])
  },

  'a page continues below an id, whether it exists or not': async ({ store, expect }) => {
    const older = await enqueueJob(store, { id: idAt(START_MS - 1_000) })
    await enqueueJob(store, { id: idAt(START_MS + 1_000) })

    const { jobs } = await store.list({ filter: {}, limit: 10, before: idAt(START_MS) })

    expect(jobs.map(({ id }) => id)).toEqual([older])
  },

  'a page tells how many jobs were looked through': async ({ store, expect }) => {
    await store.enqueue(newJobs(3))

    const page = await store.list({ filter: { types: ['unheard-of'] }, limit: 2, before: null })

    expect(page).toEqual({ jobs: [], next: null, searched: 3, searchedTo: null })
  },

  'the largest page is given': async ({ store, expect }) => {
    await store.enqueue(newJobs(PAGE_MAX + 1))

    const page = await store.list({ filter: {}, limit: PAGE_MAX, before: null })

    expect(page.jobs).toHaveLength(PAGE_MAX)
  },

  'a page over the largest is refused': async ({ store, expect }) => {
    expect(await codeOf(store.list({ filter: {}, limit: PAGE_MAX + 1, before: null }))).toBe('invalid_option')
  },

  'a page of nothing is refused': async ({ store, expect }) => {
    expect(await codeOf(store.list({ filter: {}, limit: 0, before: null }))).toBe('invalid_option')
  },

  ...factsFor(
    JOB_STATES,
    (state) => `a list shows a job that is ${state} as get does, without what makes it heavy`,
    async ({ store, expect }, state) => {
      const id = await jobIn(store, state, { tags: ['listed'] })
      const shown = Object.entries(await viewOf(store, id)).filter(([part]) => !HEAVY.includes(part))

      const { jobs } = await store.list({ filter: { tags: [['listed']] }, limit: 10, before: null })

      expect(jobs).toEqual([Object.fromEntries(shown)])
    },
  ),
}

const filters: Facts = {
  ...factsFor(
    JOB_STATES,
    (state) => `a list can be narrowed to jobs that are ${state}`,
    async ({ store, expect }, state) => {
      const ids = new Map<string, string>()
      for (const each of JOB_STATES.filter((each) => each !== 'ready')) ids.set(each, await jobIn(store, each))
      ids.set('ready', await jobIn(store, 'ready'))

      expect(await listIds(store, { states: [state], queues: ['email'] })).toEqual([ids.get(state)])
    },
  ),

  'a list can be narrowed to a queue': async ({ store, expect }) => {
    await enqueueJob(store, { queue: 'email' })
    const id = await enqueueJob(store, { queue: 'push' })

    expect(await listIds(store, { queues: ['push'] })).toEqual([id])
  },

  'a list can be narrowed to a type': async ({ store, expect }) => {
    await enqueueJob(store, { type: 'send_email' })
    const id = await enqueueJob(store, { type: 'send_push' })

    expect(await listIds(store, { types: ['send_push'] })).toEqual([id])
  },

  'a list can be narrowed to a tag': async ({ store, expect }) => {
    await enqueueJob(store, { tags: ['night'] })
    await enqueueJob(store)
    const id = await enqueueJob(store, { tags: ['night shift', 'vip'] })

    expect(await listIds(store, { tags: [['vip']] })).toEqual([id])
  },

  'a job must match every field of a filter': async ({ store, expect }) => {
    await enqueueJob(store, { queue: 'push', type: 'send_push' })
    await enqueueJob(store, { queue: 'email', type: 'send_push', tags: ['vip'] })
    const id = await enqueueJob(store, { queue: 'push', type: 'send_push', tags: ['vip'] })

    const filter: JobFilter = { states: ['ready'], queues: ['push'], types: ['send_push'], tags: [['vip']] }
    expect(await listIds(store, filter)).toEqual([id])
  },

  'a filter nothing matches lists nothing': async ({ store, expect }) => {
    await enqueueJob(store)

    expect(await listIds(store, { queues: ['unheard-of'] })).toEqual([])
  },
}

export const listFacts: Facts = { ...pages, ...filters }
