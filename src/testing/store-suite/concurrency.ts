// Concurrency: many calls at once, from two processes where the store allows it, come out as if one had come after the other.

import type { ClaimedJob } from '../../core/job.js'
import type { Store } from '../../core/store.js'
import type { Facts, Scene } from './context.js'
import {
  crashed,
  dead,
  keyed,
  LEASE_MS,
  newJob,
  newJobs,
  newSchedule,
  OPERATOR,
  retrying,
  START_MS,
  succeeded,
} from './samples.js'
import {
  claimIds,
  claimJob,
  claimJobs,
  enqueueJob,
  jobIn,
  listIds,
  startJob,
  stateOf,
  statesOf,
  viewOf,
} from './steps.js'

/** Makes `count` calls at once, half of them through a second process. */
async function atOnce<T>(scene: Scene, count: number, call: (store: Store, index: number) => Promise<T>): Promise<T[]> {
  const stores = [scene.store, await scene.openPeer()]
  return Promise.all(Array.from({ length: count }, (_, index) => call(stores[index % 2]!, index)))
}

/** How often a race between two calls is run: once seldom shows anything. */
const ROUNDS = 20

const enqueueing: Facts = {
  'of many enqueues with one key at once one job is written, and all learn its id': async (scene) => {
    const answers = await atOnce(scene, 64, (store) => store.enqueue([newJob(keyed('welcome'))]))

    const ids = await listIds(scene.store)
    scene.expect(ids).toHaveLength(1)
    scene.expect(answers.flat().map(({ id }) => id)).toEqual(Array(64).fill(ids[0]))
  },

  'of many enqueues with one key at once exactly one is told that it created the job': async (scene) => {
    const answers = await atOnce(scene, 64, (store) => store.enqueue([newJob(keyed('welcome'))]))

    const created = answers.flat().filter((answer) => 'created' in answer && answer.created)
    scene.expect(created).toHaveLength(1)
  },

  'one job enqueued many times at once is written once': async (scene) => {
    const job = newJob({ tags: ['once'] })

    const answers = await atOnce(scene, 64, (store) => store.enqueue([job]))

    scene.expect(answers.flat()).toEqual(Array(64).fill({ id: job.id, created: true, state: 'ready' }))
    scene.expect(await claimIds(scene.store)).toEqual([job.id])
  },

  'one plain job enqueued many times at once is written once': async (scene) => {
    const job = newJob()

    await atOnce(scene, 64, (store) => store.enqueue([job]))

    scene.expect(await claimIds(scene.store)).toEqual([job.id])
  },

  'one job with a key enqueued many times at once is created each time': async (scene) => {
    const job = newJob(keyed('welcome'))

    const answers = await atOnce(scene, 64, (store) => store.enqueue([job]))

    scene.expect(answers.flat()).toEqual(Array(64).fill({ id: job.id, created: true, state: 'ready' }))
  },

  'batches that share keys in different orders do not stand in each other’s way': async (scene) => {
    const names = Array.from({ length: 20 }, (_, index) => `key ${index}`)

    await atOnce(scene, 16, (store, index) => {
      const order = index % 2 === 0 ? names : [...names].reverse()
      return store.enqueue(order.map((name) => newJob(keyed(name))))
    })

    scene.expect(await listIds(scene.store)).toHaveLength(20)
  },

  'jobs enqueued at once are all written, each batch in its order': async (scene) => {
    const batches = Array.from({ length: 16 }, () => newJobs(10))

    await atOnce(scene, 16, (store, index) => store.enqueue(batches[index]!))

    const claimed = await claimIds(scene.store)
    const inOrder = batches.map((batch) => claimed.filter((id) => batch.some((job) => job.id === id)))
    scene.expect(inOrder).toEqual(batches.map((batch) => batch.map(({ id }) => id)))
  },
}

const leasing: Facts = {
  'claims at once never share a job': async (scene) => {
    await scene.store.enqueue(newJobs(200))

    const claims = await atOnce(scene, 16, (store) => claimJobs(store, { limit: 20 }))

    const ids = claims.flat().map(({ id }) => id)
    scene.expect(new Set(ids).size).toBe(ids.length)
  },

  'claims at once leave nothing behind': async (scene) => {
    await scene.store.enqueue(newJobs(200))

    const claims = await atOnce(scene, 16, (store) => claimJobs(store, { limit: 20 }))

    const rest = await claimIds(scene.store)
    scene.expect(claims.flat().length + rest.length).toBe(200)
  },

  'of settlements of one lease at once one is applied, and the rest repeat it': async (scene) => {
    const job = await startJob(scene.store)

    const answers = await atOnce(scene, 32, (store) => store.settle([retrying(job, 5_000)]))

    scene
      .expect(answers.flat().map(({ result, state }) => [result, state]))
      .toEqual(Array(32).fill(['settled', 'retrying']))
    scene.expect((await viewOf(scene.store, job.id)).attempts).toHaveLength(1)
  },

  'different settlements of one lease at once all answer with the one that was applied': async (scene) => {
    const job = await startJob(scene.store)

    const answers = await atOnce(scene, 16, (store, index) =>
      store.settle([index % 3 === 0 ? succeeded(job) : dead(job)]),
    )

    const state = await stateOf(scene.store, job.id)
    scene.expect(answers.flat().map((answer) => answer.state)).toEqual(Array(16).fill(state))
  },

  'a worker and a rescue that settle at once do not both take effect': async (scene) => {
    const { store, clock, expect } = scene
    await store.enqueue(newJobs(ROUNDS))
    const jobs = await claimJobs(store)
    await clock.advance(LEASE_MS)

    await race(scene, jobs, {
      one: (each, job) => each.settle([succeeded(job)]),
      other: (each, job) => each.settle([crashed(job)], { onlyExpired: true }),
    })

    const views = await Promise.all(jobs.map(({ id }) => viewOf(store, id)))
    const failures = views.map(({ attempts }) => attempts.length)
    expect(failures).toEqual(views.map(({ state }) => (state === 'succeeded' ? 0 : 1)))
  },

  'a lease that is extended and settled at once stays settled': async (scene) => {
    const { store, expect } = scene
    await store.enqueue(newJobs(ROUNDS))
    const jobs = await claimJobs(store)

    await race(scene, jobs, {
      one: (each, job) => each.extend([job], LEASE_MS),
      other: (each, job) => each.settle([succeeded(job)]),
    })

    expect(
      await statesOf(
        store,
        jobs.map(({ id }) => id),
      ),
    ).toEqual(jobs.map(() => 'succeeded'))
  },

  'promotions at once make each job ready once': async (scene) => {
    await scene.store.enqueue(newJobs(100, { when: { delayMs: 1 } }))
    await scene.clock.advance(1)

    const promotions = await atOnce(scene, 8, (store) => store.promote(100))

    const promoted = promotions.reduce((sum, each) => sum + each.promoted, 0)
    scene.expect([promoted, (await claimIds(scene.store)).length]).toEqual([100, 100])
  },
}

/** Lets two calls about each of the jobs run against each other, through two processes. */
async function race(
  scene: Scene,
  jobs: readonly ClaimedJob[],
  calls: Readonly<Record<'one' | 'other', (store: Store, job: ClaimedJob) => Promise<unknown>>>,
): Promise<void> {
  const peer = await scene.openPeer()
  for (const job of jobs) await Promise.all([calls.one(scene.store, job), calls.other(peer, job)])
}

const chains: Facts = {
  'two parents settled at once let their child go on': async (scene) => {
    const { store, expect } = scene
    const peer = await scene.openPeer()
    const states: string[] = []

    for (let round = 0; round < ROUNDS; round++) {
      const [one, other] = [await startJob(store), await startJob(store)]
      const child = await enqueueJob(store, { queue: 'children', after: [one.id, other.id] })
      await Promise.all([store.settle([succeeded(one)]), peer.settle([succeeded(other)])])
      states.push(await stateOf(store, child))
    }

    expect(states).toEqual(Array(ROUNDS).fill('ready'))
  },

  'many parents settled at once let their child go on once': async (scene) => {
    const { store, expect } = scene
    await store.enqueue(newJobs(32))
    const parents = await claimJobs(store)
    const child = await enqueueJob(store, { after: parents.map(({ id }) => id) })

    await atOnce(scene, 32, (each, index) => each.settle([succeeded(parents[index]!)]))

    expect(await claimIds(store)).toEqual([child])
  },

  'a child enqueued while its parent ends is not left behind': async (scene) => {
    const { store, expect } = scene
    const peer = await scene.openPeer()
    const states: string[] = []

    for (let round = 0; round < ROUNDS; round++) {
      const parent = await startJob(store)
      const child = newJob({ queue: 'children', after: [parent.id] })
      await Promise.all([store.settle([succeeded(parent)]), peer.enqueue([child])])
      // The two may miss each other; a promotion or a look soon afterwards is what finds a child that both have missed.
      states.push(await stateOnceReady(store, child.id))
    }

    expect(states).toEqual(Array(ROUNDS).fill('ready'))
  },
}

/** The state of a child that is on its way to `ready`, or the one it is still in after two seconds. */
async function stateOnceReady(store: Store, id: string): Promise<string> {
  for (let look = 0; ; look++) {
    await store.promote(1_000)
    const state = await stateOf(store, id)
    if (state === 'ready' || look === 100) return state
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

const operating: Facts = {
  'of firings of one tick at once one makes the job': async (scene) => {
    const { store, expect } = scene
    await store.setSchedule(newSchedule(), START_MS, OPERATOR)

    const firings = await atOnce(scene, 16, (each) => {
      const ticks = [{ tickMs: START_MS, job: newJob() }]
      return each.fire({ name: 'nightly', expectedNextAtMs: START_MS, ticks, nextAtMs: START_MS + 1_000 })
    })

    expect(firings.filter(({ fired }) => fired)).toHaveLength(1)
    expect(await listIds(store)).toEqual(firings.flatMap(({ jobs }) => jobs))
  },

  'of revivals of one job at once one counts': async (scene) => {
    const { store, expect } = scene
    const id = await jobIn(store, 'dead')

    const answers = await atOnce(scene, 16, (each) => each.requeue([id], OPERATOR))

    expect(answers.flat().filter(({ result }) => result === 'requeued')).toHaveLength(1)
    expect((await viewOf(store, id)).requeues).toHaveLength(1)
  },

  'many cancels of one job at once all find it cancelled': async (scene) => {
    const { store, expect } = scene
    const id = await enqueueJob(store)

    const answers = await atOnce(scene, 16, (each) => each.cancel([id], OPERATOR))

    expect(answers.flat()).toEqual(Array(16).fill({ id, result: 'cancelled' }))
  },

  'a job that is cancelled and claimed at once is either cancelled or asked to stop': async (scene) => {
    const { store, expect } = scene
    const peer = await scene.openPeer()
    const endings: unknown[] = []

    for (let round = 0; round < ROUNDS; round++) {
      const id = await enqueueJob(store)
      const [[answer], claimed] = await Promise.all([peer.cancel([id], OPERATOR), claimIds(store)])
      const { state, cancelRequested } = await viewOf(store, id)
      const isConsistent = claimed.length === 0 ? state === 'cancelled' : state === 'running' && cancelRequested
      endings.push(isConsistent && answer!.result === (claimed.length === 0 ? 'cancelled' : 'asked'))
    }

    expect(endings).toEqual(Array(ROUNDS).fill(true))
  },

  'a job that is changed and claimed at once is claimed once': async (scene) => {
    const { store, expect } = scene
    const peer = await scene.openPeer()
    const attempts: number[] = []

    for (let round = 0; round < ROUNDS; round++) {
      const id = await enqueueJob(store)
      const [, claimed] = await Promise.all([peer.update(id, { priority: 5 }, OPERATOR), claimIds(store)])
      if (claimed.length === 0) await claimJob(store)
      attempts.push((await viewOf(store, id)).attempt)
    }

    expect(attempts).toEqual(Array(ROUNDS).fill(1))
  },

  'a queue that many enqueue to for the first time at once is one queue': async (scene) => {
    await atOnce(scene, 32, (store) => store.enqueue([newJob()]))

    scene.expect(await scene.store.queues()).toHaveLength(1)
  },
}

export const concurrencyFacts: Facts = { ...enqueueing, ...leasing, ...chains, ...operating }
