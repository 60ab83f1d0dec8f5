// Jobs by their group: lists, counts and bulk actions.

import { parseFilter } from '../../core/filter.js'
import type { BulkAction } from '../../core/operating.js'
import { JOB_STATES } from '../../core/states.js'
import type { Store } from '../../core/store.js'
import { type Facts, factsFor } from './context.js'
import {
  enqueueGroup,
  GROUP,
  groupJobs,
  inGroup,
  LIMIT,
  limitedBy,
  setFlow,
  setGroup,
  setLimit,
} from './flow-samples.js'
import { dead, idAt, newId, newJob, OPERATOR, QUEUE, START_MS } from './samples.js'
import { enqueueJob, jobIn, listIds, startJob, statesOf } from './steps.js'

async function find(store: Store, filter: string): Promise<string[]> {
  return (await listIds(store, parseFilter(filter))).reverse()
}

/** Writes a bulk action down and does it. */
async function bulk(store: Store, action: BulkAction, filter: string): Promise<void> {
  const asked = { action, filter: parseFilter(filter), by: OPERATOR, perSecond: null, limit: 1_000, expected: null }
  await store.startBulk({ id: newId(), ...asked })
  while ((await store.stepBulk()) !== null);
}

const found: Facts = {
  ...factsFor(
    JOB_STATES,
    (state) => `a job that is ${state} is found by its group`,
    async ({ store, expect }, state) => {
      const mine = await jobIn(store, state, inGroup(GROUP))
      const other = await jobIn(store, state, inGroup('other'))
      await enqueueJob(store, { queue: 'plain' })

      expect(await find(store, `group:${GROUP} state:${state}`)).toEqual([mine])
      expect(await find(store, `group:${GROUP} state:${state} queue:${QUEUE}`)).toEqual([mine])
      expect(await find(store, `group:${GROUP},other state:${state}`)).toEqual([mine, other])
      expect(await find(store, `group:${GROUP}`)).toEqual([mine])
    },
  ),

  'jobs of a group in several states are found together, newest first': async ({ store, expect }) => {
    const died = await jobIn(store, 'dead', inGroup(GROUP))
    const waits = await jobIn(store, 'retrying', inGroup(GROUP))
    const runs = await jobIn(store, 'running', inGroup(GROUP))
    const ready = await jobIn(store, 'ready', inGroup(GROUP))

    expect(await listIds(store, parseFilter(`group:${GROUP} state:ready,running,retrying,dead`))).toEqual([
      ...[ready, runs, waits, died],
    ])
  },

  'groups of one name in two queues are told apart by the queue': async ({ store, expect }) => {
    const here = await enqueueJob(store, inGroup())
    const there = await enqueueJob(store, { ...inGroup(), queue: 'push' })

    expect(await find(store, `group:${GROUP} state:ready`)).toEqual([here, there])
    expect(await find(store, `group:${GROUP} state:ready queue:push`)).toEqual([there])
    expect(await find(store, `group:${GROUP} queue:pu*`)).toEqual([there])
  },

  'a job of a group with limits is found by its group': async ({ store, expect }) => {
    await setLimit(store)
    const plain = await enqueueJob(store, inGroup())
    const limited = await enqueueJob(store, inGroup(GROUP, { limits: [LIMIT] }))
    await enqueueJob(store, limitedBy(LIMIT))

    expect(await find(store, `group:${GROUP} state:ready`)).toEqual([plain, limited])
  },

  'a group that no job has finds nothing': async ({ store, expect }) => {
    await enqueueGroup(store, 2)

    expect(await find(store, 'group:acm')).toEqual([])
    expect(await find(store, 'group:a* state:ready')).toEqual([])
    expect(await store.count(parseFilter('group:nobody'), { max: 10 })).toEqual({ count: 0, isExact: true })
  },

  'groups with hostile names are found by them': async ({ store, expect }) => {
    const names = ["'; DROP TABLE jobs; --", '"quoted" \\ {a,b} NULL', '%_*', 'ünïcödé 漢字 🧵', '__proto__']
    for (const group of names) {
      const id = await enqueueJob(store, inGroup(group))
      expect(await listIds(store, { groups: [group] })).toEqual([id])
      expect(await listIds(store, { groups: [group], states: ['ready'] })).toEqual([id])
    }
  },

  'pages of a group continue where the last one ended': async ({ store, expect }) => {
    const ids = Array.from({ length: 5 }, (_, index) => idAt(START_MS + index))
    await store.enqueue(ids.map((id) => newJob({ ...inGroup(), id })))
    await store.enqueue(groupJobs(5, 'other'))

    expect(await listIds(store, { groups: [GROUP], states: ['ready'] }, 2)).toEqual([...ids].reverse())
  },

  'jobs of a group are counted': async ({ store, expect }) => {
    await store.enqueue([...groupJobs(3), ...groupJobs(2, 'other'), newJob()])

    expect(await store.count({ groups: [GROUP] }, { max: 100 })).toEqual({ count: 3, isExact: true })
    expect(await store.count({ groups: [GROUP], states: ['ready'] }, { max: 100 })).toEqual({ count: 3, isExact: true })
    expect(await store.count({ groups: [GROUP], states: ['ready'] }, { max: 2 })).toEqual({ count: 2, isExact: false })
  },

  'a bulk action touches the jobs of one group alone': async ({ store, expect }) => {
    const mine = await enqueueGroup(store, 3)
    const others = await enqueueGroup(store, 2, 'other')

    await bulk(store, 'cancel', `group:${GROUP} state:ready`)

    expect(await statesOf(store, mine)).toEqual(['cancelled', 'cancelled', 'cancelled'])
    expect(await statesOf(store, others)).toEqual(['ready', 'ready'])
  },

  'dead jobs of one group are requeued by it': async ({ store, expect }) => {
    const ids: string[] = []
    for (const group of [GROUP, 'other']) {
      const job = await startJob(store, inGroup(group))
      await store.settle([dead(job)])
      ids.push(job.id)
    }

    await bulk(store, 'requeue', `group:${GROUP} state:dead`)

    expect(await statesOf(store, ids)).toEqual(['ready', 'dead'])
  },
}

const own: Facts = {
  'groups that are paused or have settings can be listed alone': async ({ store, expect }) => {
    await setFlow(store, { groups: { concurrency: 1 } })
    await store.enqueue(['a', 'b', 'c', 'd'].map((group) => newJob(inGroup(group))))
    await setGroup(store, 'b', { weight: 2 })
    await setGroup(store, 'e', { weight: 2 })
    await store.pauseGroup(QUEUE, 'd', OPERATOR)
    const list = (after: string | null, limit: number) =>
      store.groups({ queue: QUEUE, prefix: '', after, limit, own: true })

    const page = await list(null, 2)

    expect(page.groups).toMatchObject([
      { group: 'b', ready: 1, override: { weight: 2 } },
      { group: 'd', ready: 1, paused: true },
    ])
    expect((await list(page.next, 2)).groups.map(({ group }) => group)).toEqual(['e'])
  },
}

export const flowFilterFacts: Facts = { ...found, ...own }
