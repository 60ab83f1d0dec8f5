// Settings of flow control: kept, shown, recorded, and what hostile names do to them.

import { NO_LIMIT } from '../../core/flow/settings.js'
import type { Store } from '../../core/store.js'
import { type Facts, factsFor } from './context.js'
import {
  claimFlow,
  enqueueGroup,
  flowOf,
  GROUP,
  groupJobs,
  inGroup,
  LIMIT,
  limitedBy,
  perGroup,
  perSecond,
  setFlow,
  setGroup,
  setLimit,
} from './flow-samples.js'
import { newJob, OPERATOR, QUEUE } from './samples.js'
import { claimJobs, codeOf } from './steps.js'

const HOSTILE = [
  "'; DROP TABLE jobs; --",
  '"quoted" \\ {a,b} NULL',
  '__proto__',
  'constructor',
  ' spaces  and\u00a0more ',
  'ünïcödé 漢字 🧵',
  '%_*?[]',
  'g'.repeat(200),
  '漢'.repeat(200),
  'queue:email',
  '[acme',
] as const

const hostile: Facts = factsFor(
  HOSTILE,
  (group) =>
    `a group called ${JSON.stringify(group.length > 40 ? `${group.slice(0, 1)}… (${group.length})` : group)} is one like any other`,
  async ({ store, expect }, group) => {
    await setFlow(store, { groups: { concurrency: 1 } })
    await setGroup(store, group, { concurrency: 2 })
    await store.enqueue([...groupJobs(3, group), ...groupJobs(3, 'acme')])

    expect(perGroup(await claimJobs(store))[group]).toBe(2)
    await store.pauseGroup(QUEUE, group, OPERATOR)
    const page = await store.groups({ queue: QUEUE, prefix: group, after: null, limit: 10 })
    expect(page.groups).toMatchObject([{ group, ready: 1, running: 2, paused: true }])
  },
)

function groupsOf(store: Store, changes: { prefix?: string; after?: string | null; limit?: number } = {}) {
  return store.groups({ queue: QUEUE, prefix: '', after: null, limit: 10, ...changes })
}

const shown: Facts = {
  'settings of flow control are shown with their queue': async ({ store, expect }) => {
    const flow = flowOf({ concurrency: 5, rate: perSecond(3, 7), groups: { concurrency: 2, ordered: false } })

    await store.setQueue(QUEUE, { limits: { maxAttempts: 3 }, flow }, OPERATOR)

    expect(await store.queues()).toEqual([
      { name: QUEUE, paused: false, settings: { limits: { maxAttempts: 3 }, flow } },
    ])
  },

  'groups are listed by name with what they have': async ({ store, expect }) => {
    await setFlow(store, { groups: { concurrency: 1 } })
    await enqueueGroup(store, 3, 'b')
    await enqueueGroup(store, 1, 'a')
    await claimJobs(store)

    expect(await groupsOf(store)).toEqual({
      groups: [
        { group: 'a', ready: 0, running: 1, paused: false, stoppedBy: null, until: null, override: null },
        { group: 'b', ready: 2, running: 1, paused: false, stoppedBy: null, until: null, override: null },
      ],
      next: null,
    })
  },

  'a group with neither jobs nor settings does not exist': async ({ store, expect }) => {
    await enqueueGroup(store, 1)
    const [job] = await claimJobs(store)
    await store.settle([
      { ...job!, settlement: { state: 'succeeded', attempt: 1, crashes: 0 }, result: null, error: null, ranMs: 1 },
    ])
    await setGroup(store, 'other', { weight: 2 })
    await setGroup(store, 'other', null)

    expect(await groupsOf(store)).toEqual({ groups: [], next: null })
  },

  'a group with settings of its own exists without jobs': async ({ store, expect }) => {
    await setGroup(store, GROUP, { concurrency: 4, weight: 2 })

    expect((await groupsOf(store)).groups).toMatchObject([
      { group: GROUP, ready: 0, running: 0, override: { concurrency: 4, rate: null, weight: 2 } },
    ])
  },

  'groups come in pages': async ({ store, expect }) => {
    await store.enqueue(['a', 'b', 'c', 'd', 'e'].map((group) => newJob(inGroup(group))))

    const first = await groupsOf(store, { limit: 2 })
    const second = await groupsOf(store, { limit: 2, after: first.next })
    const third = await groupsOf(store, { limit: 2, after: second.next })

    expect([first, second, third].map((page) => page.groups.map(({ group }) => group))).toEqual([
      ['a', 'b'],
      ['c', 'd'],
      ['e'],
    ])
    expect(third.next).toBe(null)
  },

  'groups are listed by the beginning of their names': async ({ store, expect }) => {
    await store.enqueue(['eu-1', 'eu-2', 'us-1', 'e%'].map((group) => newJob(inGroup(group))))

    const names = async (prefix: string) => (await groupsOf(store, { prefix })).groups.map(({ group }) => group)

    expect(await names('eu-')).toEqual(['eu-1', 'eu-2'])
    expect(await names('e%')).toEqual(['e%'])
    expect(await names('x')).toEqual([])
  },

  'a page of groups has from 1 to 200': async ({ store, expect }) => {
    expect(await codeOf(groupsOf(store, { limit: 0 }))).toBe('invalid_option')
    expect(await codeOf(groupsOf(store, { limit: 201 }))).toBe('invalid_option')
  },

  'groups of other queues are not listed': async ({ store, expect }) => {
    await store.enqueue([newJob({ ...inGroup('a'), queue: 'push' })])

    expect((await groupsOf(store)).groups).toEqual([])
  },

  'jobs without a group are in no group that is listed': async ({ store, expect }) => {
    await setLimit(store)
    await store.enqueue([newJob(limitedBy(LIMIT)), newJob()])

    expect((await groupsOf(store)).groups).toEqual([])
  },
}

const recorded: Facts = {
  'every change of limits and groups is written down': async ({ store, expect }) => {
    await setLimit(store, { concurrency: 1 })
    await setGroup(store, GROUP, { weight: 2 })
    await store.pauseGroup(QUEUE, GROUP, OPERATOR)
    await store.resumeGroup(QUEUE, GROUP, OPERATOR)
    await store.removeLimit(LIMIT, OPERATOR)

    const { entries } = await store.audit({ before: null, limit: 10 })

    expect(entries.map(({ actor, action, target }) => [actor, action, target]).reverse()).toEqual([
      [OPERATOR, 'set limit', LIMIT],
      [OPERATOR, 'set group', QUEUE],
      [OPERATOR, 'pause group', QUEUE],
      [OPERATOR, 'resume group', QUEUE],
      [OPERATOR, 'remove limit', LIMIT],
    ])
    expect(entries.at(-2)).toMatchObject({ details: { group: GROUP, before: null, after: { weight: 2 } } })
  },

  'setting what is set already is not written down': async ({ store, expect }) => {
    for (let round = 0; round < 2; round++) {
      await setLimit(store, { concurrency: 1 })
      await setGroup(store, GROUP, { weight: 2 })
      await setFlow(store, { concurrency: 3 })
    }

    expect((await store.audit({ before: null, limit: 10 })).entries).toHaveLength(3)
  },

  'a limit that is not changed because an operator set it is not written down': async ({ store, expect }) => {
    await setLimit(store, { concurrency: 1 })

    await store.setLimit(LIMIT, { ...NO_LIMIT, concurrency: 2 }, 'worker', 'definition')

    expect((await store.audit({ before: null, limit: 10 })).entries).toHaveLength(1)
  },

  'settings of a group make its queue known': async ({ store, expect }) => {
    await store.pauseGroup('push', GROUP, OPERATOR)

    expect((await store.queues()).map(({ name }) => name)).toEqual(['push'])
  },

  'a queue keeps its flow control when it is paused and resumed': async ({ store, expect }) => {
    await setFlow(store, { groups: { concurrency: 1 } })
    await store.enqueue(groupJobs(3))
    await store.pause(QUEUE, OPERATOR)
    expect((await claimFlow(store)).ids).toEqual([])

    await store.resume(QUEUE, OPERATOR)

    expect((await claimFlow(store)).ids).toHaveLength(1)
  },
}

export const flowSettingFacts: Facts = { ...hostile, ...shown, ...recorded }
