// Jobs of a group are found by the indexes that claims use, however many jobs of other groups are newer: no window is searched.

import { afterAll, beforeAll, expect, test } from 'vitest'
import { NO_GROUP_SETTINGS, NO_QUEUE_FLOW } from '../../src/core/flow/settings.js'
import { LIST_WINDOW } from '../../src/core/operator-store.js'
import type { Store } from '../../src/core/store.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { groupJobs, inGroup } from '../../src/testing/store-suite/flow-samples.js'
import { newJob, OPERATOR, QUEUE, retrying } from '../../src/testing/store-suite/samples.js'
import { claimJobs } from '../../src/testing/store-suite/steps.js'
import { dropSchema, testServerUrl } from '../support/postgres.js'

const schema = `group_search_${process.pid}`
const BATCH = 1_000
let store: Store

beforeAll(async () => {
  store = await postgresStore(testServerUrl(), { schema })
}, 60_000)

afterAll(async () => {
  await store.close()
  await dropSchema(testServerUrl(), schema)
})

test('a page has the few jobs of a group behind more jobs of others than a page looks through', {
  timeout: 120_000,
}, async () => {
  const groups = { ...NO_GROUP_SETTINGS, concurrency: 1 }
  await store.setQueue(QUEUE, { limits: {}, flow: { ...NO_QUEUE_FLOW, groups } }, OPERATOR)
  const [first, second] = [newJob(inGroup('rare')), newJob(inGroup('rare'))]
  await store.enqueue([first, second])
  const [running] = await claimJobs(store)
  for (let sent = 0; sent <= LIST_WINDOW; sent += BATCH) await store.enqueue(groupJobs(BATCH, 'loud'))
  const find = async (state: 'ready' | 'running' | 'retrying') => {
    const page = await store.list({ filter: { groups: ['rare'], states: [state] }, limit: 10, before: null })
    return { ids: page.jobs.map(({ id }) => id), next: page.next, searched: page.searched }
  }

  expect(await find('ready')).toEqual({ ids: [second!.id], next: null, searched: 1 })
  expect(await find('running')).toEqual({ ids: [first!.id], next: null, searched: 1 })
  await store.settle([retrying(running!, 60_000)])
  expect(await find('retrying')).toEqual({ ids: [first!.id], next: null, searched: 1 })
  expect(await store.count({ groups: ['rare'], states: ['ready', 'retrying'] }, { max: 10 })).toEqual({
    count: 2,
    isExact: true,
  })
  // The group with more jobs than a page looks through is searched as before.
  const loud = await store.list({ filter: { groups: ['loud'], states: ['ready'] }, limit: 10, before: null })
  expect(loud.jobs).toHaveLength(10)
  expect(loud.next).not.toBeNull()
})
