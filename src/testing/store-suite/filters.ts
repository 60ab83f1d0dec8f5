// Filters: each key of the language finds the jobs it names, and those alone.

import { parseFilter } from '../../core/filter.js'
import { fingerprint } from '../../core/fingerprint.js'
import type { Store } from '../../core/store.js'
import type { Facts } from './context.js'
import {
  dead,
  FAILURE,
  keyed,
  MINUTE_MS,
  newJob,
  newJobs,
  newSchedule,
  OPERATOR,
  QUEUE,
  retrying,
  SECOND_MS,
  START_MS,
  succeeded,
} from './samples.js'
import { claimJob, codeOf, enqueueEach, enqueueJob, jobIn, listIds, startJob } from './steps.js'

/** The ids of what a filter in text finds, oldest first. */
async function find(store: Store, filter: string): Promise<string[]> {
  return (await listIds(store, parseFilter(filter))).reverse()
}

const names: Facts = {
  'several states are found together, newest first': async ({ store, expect }) => {
    const [died, waiting] = [await jobIn(store, 'dead'), await jobIn(store, 'retrying')]
    await jobIn(store, 'succeeded')
    const running = await jobIn(store, 'running')
    await jobIn(store, 'ready')

    expect(await find(store, 'state:running,dead,retrying')).toEqual([died, waiting, running])
  },

  'states can be left out': async ({ store, expect }) => {
    await jobIn(store, 'dead')
    await jobIn(store, 'succeeded')
    const id = await jobIn(store, 'scheduled')

    expect(await find(store, '-state:dead,succeeded')).toEqual([id])
  },

  'a star in the name of a queue stands for anything': async ({ store, expect }) => {
    const ids = await enqueueEach(store, [
      { queue: 'mail_eu' },
      { queue: 'mail_' },
      { queue: 'email_eu' },
      { queue: 'mailXeu' },
    ])

    expect(await find(store, 'queue:mail_*')).toEqual(ids.slice(0, 2))
    expect(await find(store, 'queue:m*eu')).toEqual([ids[0], ids[3]])
  },

  'queues and types can be left out': async ({ store, expect }) => {
    const ids = await enqueueEach(store, [
      { queue: 'mail_eu', type: 'send' },
      { queue: 'push', type: 'send_push' },
      { queue: 'push', type: 'sweep' },
    ])

    expect(await find(store, '-queue:mail_* -type:send_*')).toEqual([ids[2]])
  },

  'several queues and types are found together': async ({ store, expect }) => {
    const ids = await enqueueEach(store, [
      { queue: 'email', type: 'send' },
      { queue: 'push', type: 'sweep' },
      { queue: 'push', type: 'send' },
    ])

    expect(await find(store, 'queue:email,push type:send')).toEqual([ids[0], ids[2]])
  },

  'of one term a job carries some tag, of several terms one of each': async ({ store, expect }) => {
    const ids = await enqueueEach(store, [{ tags: ['eu'] }, { tags: ['us', 'vip'] }, { tags: ['vip'] }, {}])

    expect(await find(store, 'tag:eu,us')).toEqual(ids.slice(0, 2))
    expect(await find(store, 'tag:eu,us tag:vip')).toEqual([ids[1]])
    expect(await find(store, '-tag:eu,us')).toEqual(ids.slice(2))
  },

  'a dead job is found by its reason': async ({ store, expect }) => {
    await jobIn(store, 'dead')
    const job = await startJob(store)
    await store.settle([dead(job, { reason: 'crashed' })])

    expect(await find(store, 'reason:crashed,expired')).toEqual([job.id])
  },

  'a job is found by the worker that runs it or ran it last': async ({ store, expect }) => {
    const running = await startJob(store, {}, { worker: 'mail-1:7' })
    const ended = await startJob(store, {}, { worker: 'mail-2:8' })
    await store.settle([succeeded(ended)])
    await startJob(store, {}, { worker: 'push-1:9' })

    expect(await find(store, 'worker:mail-*')).toEqual([running.id, ended.id])
  },

  'jobs are found by their ids, newest first': async ({ store, expect }) => {
    const ids = await enqueueEach(store, [{}, {}, {}])

    expect(await listIds(store, { ids: [ids[0]!, ids[2]!] })).toEqual([ids[2], ids[0]])
  },

  'ids that are asked for twice are found once, page by page': async ({ store, expect }) => {
    const ids = await enqueueEach(store, [{}, {}, {}])

    expect(await listIds(store, { ids: [ids[0]!, ids[2]!, ids[0]!, ids[1]!] }, 1)).toEqual([...ids].reverse())
  },

  'a key leads to the job that holds it': async ({ store, expect }) => {
    await jobIn(store, 'succeeded', keyed('welcome'))
    const id = await enqueueJob(store, keyed('welcome'))
    await enqueueJob(store, keyed('goodbye'))

    expect(await find(store, 'key:welcome')).toEqual([id])
  },

  'a key whose time is over leads nowhere': async ({ store, clock, expect }) => {
    await enqueueJob(store, keyed('welcome', SECOND_MS))
    await clock.advance(SECOND_MS)

    expect(await find(store, 'key:welcome')).toEqual([])
  },

  'the jobs of a schedule are found': async ({ store, expect }) => {
    const job = newJob()
    await store.setSchedule(newSchedule(), START_MS, OPERATOR)
    const ticks = [{ tickMs: START_MS, job }]
    await store.fire({ name: 'nightly', expectedNextAtMs: START_MS, ticks, nextAtMs: START_MS + MINUTE_MS })
    await enqueueJob(store)

    expect(await find(store, 'schedule:nightly')).toEqual([job.id])
    expect(await find(store, 'schedule:daily')).toEqual([])
  },
}

/** Fails a new job for good with an error. */
async function die(store: Store, error: typeof FAILURE, queue: string = QUEUE): Promise<string> {
  const job = await startJob(store, { queue })
  await store.settle([dead(job, { error })])
  return job.id
}

const contents: Facts = {
  'a job is found by a part of its error, whatever the case': async ({ store, expect }) => {
    const first = await die(store, { name: 'TimeoutError', message: 'no answer in 30 s' })
    await die(store, { name: 'Error', message: '100% wrong' })
    const second = await startJob(store)
    await store.settle([retrying(second, MINUTE_MS, { error: { name: 'Error', message: 'Timeout, again' } })])

    expect(await find(store, 'error:timeout')).toEqual([first, second.id])
    expect(await find(store, 'error:"ANSWER in"')).toEqual([first])
    expect(await find(store, 'error:%_')).toEqual([])
  },

  'every error term must be found': async ({ store, expect }) => {
    const both = await die(store, { name: 'Error', message: 'connection to db-1 lost' })
    await die(store, { name: 'Error', message: 'connection to db-2 lost' })

    expect(await find(store, 'error:connection error:db-1,db-9')).toEqual([both])
  },

  'dead jobs are found by the fingerprint of their error': async ({ store, expect }) => {
    const ids = [await die(store, { name: 'Error', message: 'user 7 not found' })]
    ids.push(await die(store, { name: 'Error', message: 'user 12 not found' }, 'push'))
    await die(store, FAILURE)

    const mark = fingerprint({ name: 'Error', message: 'user 99 not found' })
    expect(await find(store, `fingerprint:${mark}`)).toEqual(ids)
    expect(await find(store, `fingerprint:${mark} queue:push`)).toEqual([ids[1]])
  },

  'a requeued job no longer has a fingerprint': async ({ store, expect }) => {
    const id = await die(store, FAILURE)
    await store.requeue([id], OPERATOR)

    expect(await find(store, `fingerprint:${fingerprint(FAILURE)}`)).toEqual([])
  },

  'a job is found by a value in its payload': async ({ store, expect }) => {
    const payloads = [{ user: { id: 42 } }, { user: { id: '42' } }, { user: [7, { id: true }] }, { user: null }, 42]
    const ids = await enqueueEach(
      store,
      payloads.map((payload) => ({ payload: JSON.stringify(payload) })),
    )

    expect(await find(store, 'payload.user.id:42')).toEqual([ids[0]])
    expect(await find(store, 'payload.user.id:"42"')).toEqual([ids[1]])
    expect(await find(store, 'payload.user.id:"42",42')).toEqual(ids.slice(0, 2))
    expect(await find(store, 'payload.user.0:7')).toEqual([ids[2]])
    expect(await find(store, 'payload.user.1.id:true')).toEqual([ids[2]])
    expect(await find(store, 'payload.user:null')).toEqual([ids[3]])
    expect(await find(store, 'payload.user:*')).toEqual(ids.slice(0, 4))
  },

  'a payload with characters a database cannot hold is looked at as well': async ({ store, expect }) => {
    const payload = JSON.stringify({ a: '\u0000', b: '\ud800', c: '\\u0000', d: 7 })
    const id = await enqueueJob(store, { payload })

    expect(await find(store, 'payload.d:7')).toEqual([id])
    expect(await find(store, 'payload.c:"\\\\u0000"')).toEqual([id])
    expect(await find(store, 'payload.a:x')).toEqual([])
    expect(await find(store, 'payload.b:*')).toEqual([id])
  },

  'numbers of a payload are equal by their value': async ({ store, expect }) => {
    const id = await enqueueJob(store, { payload: '{"a":1.50e2,"b":0.1}' })

    expect(await find(store, 'payload.a:150 payload.b:1e-1')).toEqual([id])
  },
}

const measures: Facts = {
  'a job is found by how often it was tried': async ({ store, expect }) => {
    const ids: string[] = []
    for (const attempt of [1, 2, 3]) {
      const job = await startJob(store)
      await store.settle([dead({ ...job, attempt })])
      ids.push(job.id)
    }

    expect(await find(store, 'attempt:>1')).toEqual(ids.slice(1))
    expect(await find(store, 'attempt:>=2 attempt:<3')).toEqual([ids[1]])
    expect(await find(store, 'attempt:1,>2')).toEqual([ids[0], ids[2]])
    expect(await find(store, 'attempt:>1 attempt:<2')).toEqual([])
  },

  'a job is found by its priority': async ({ store, expect }) => {
    const ids = await enqueueEach(store, [{ priority: -5 }, {}, { priority: 5 }])

    expect(await find(store, 'priority:<=0')).toEqual(ids.slice(0, 2))
    expect(await find(store, 'priority:-5')).toEqual([ids[0]])
  },

  'a job is found by its age and by the date of its creation': async ({ store, clock, expect }) => {
    const old = await enqueueJob(store)
    await clock.advance(2 * MINUTE_MS)
    const young = await enqueueJob(store)
    await clock.advance(SECOND_MS)

    expect(await find(store, 'created:<1m')).toEqual([young])
    expect(await find(store, 'created:>1m')).toEqual([old])
    expect(await find(store, 'created:>=2026-03-01T12:01Z')).toEqual([young])
    expect(await find(store, 'created:<2026-03-01T12:01Z created:>2026-02-28')).toEqual([old])
  },

  'an age counts from the moment of the call, to the millisecond': async ({ store, clock, expect }) => {
    const id = await enqueueJob(store)
    await clock.advance(SECOND_MS)

    expect(await find(store, 'created:<=1s created:>=1s')).toEqual([id])
    expect(await find(store, 'created:<1s')).toEqual([])
    expect(await find(store, 'created:>1s')).toEqual([])
  },

  'a job is found by when it finished': async ({ store, clock, expect }) => {
    const first = await jobIn(store, 'succeeded')
    await clock.advance(2 * MINUTE_MS)
    const second = await jobIn(store, 'dead')
    await jobIn(store, 'ready')

    expect(await find(store, 'finished:<1m')).toEqual([second])
    expect(await find(store, 'finished:>=2m')).toEqual([first])
  },
}

const counts: Facts = {
  'jobs that match are counted': async ({ store, expect }) => {
    await store.enqueue([...newJobs(3), ...newJobs(2, { type: 'sweep' })])

    expect(await store.count(parseFilter('type:sweep'), { max: 100 })).toEqual({ count: 2, isExact: true })
    expect(await store.count({}, { max: 100 })).toEqual({ count: 5, isExact: true })
    expect(await store.count(parseFilter('state:ready queue:email'), { max: 5 })).toEqual({ count: 5, isExact: true })
    expect(await store.count(parseFilter('state:dead'), { max: 5 })).toEqual({ count: 0, isExact: true })
  },

  'jobs in each state are counted': async ({ store, expect }) => {
    const states = ['blocked', 'scheduled', 'running', 'retrying', 'succeeded', 'dead', 'cancelled', 'ready'] as const
    for (const state of states) await jobIn(store, state)

    for (const state of states) {
      expect(await store.count({ states: [state], queues: [QUEUE] }, { max: 10 })).toEqual({ count: 1, isExact: true })
    }
    expect(await store.count({ states: ['dead', 'succeeded', 'cancelled'] }, { max: 10 })).toEqual({
      count: 3,
      isExact: true,
    })
  },

  'a count that stops is not exact': async ({ store, expect }) => {
    await store.enqueue(newJobs(4))

    expect(await store.count({}, { max: 3 })).toEqual({ count: 3, isExact: false })
    expect(await store.count({ states: ['ready'] }, { max: 3 })).toEqual({ count: 3, isExact: false })
  },

  'a count without bounds is refused': async ({ store, expect }) => {
    expect(await codeOf(store.count({}, { max: 0 }))).toBe('invalid_option')
    expect(await codeOf(store.count({}, { max: 1_000_000 }))).toBe('invalid_option')
  },

  'an empty list of queues matches nothing': async ({ store, expect }) => {
    await enqueueJob(store)

    expect(await listIds(store, { queues: [] })).toEqual([])
    expect(await store.count({ queues: [], states: ['ready'] }, { max: 10 })).toEqual({ count: 0, isExact: true })
    expect((await claimJob(store)).attempt).toBe(1)
  },
}

export const filterFacts: Facts = { ...names, ...contents, ...measures, ...counts }
