// Jobs that leave their slot until their children have ended.

import type { ClaimedJob, SettledJob } from '../../core/job.js'
import { type Facts, factsFor } from './context.js'
import { inGroup, LIMIT, limitedBy, setFlow, setLimit } from './flow-samples.js'
import { cancelled, dead, LEASE_MS, newJob, OPERATOR, SECOND_MS, succeeded } from './samples.js'
import { claimIds, claimJob, claimJobs, enqueueJob, startJob, stateOf, viewOf } from './steps.js'

/** The settlement of a job that waits for its children. */
function waiting(job: ClaimedJob, ids: readonly string[], wakesEarly = false): SettledJob {
  return {
    ...succeeded(job),
    settlement: { state: 'blocked', attempt: job.attempt - 1, crashes: job.crashes },
    result: null,
    children: { ids, wakesEarly },
  }
}

export const childrenFacts: Facts = {
  'a job that waits for its children is blocked, without a lease, and its attempt is not counted': async ({
    store,
    expect,
  }) => {
    const parent = await startJob(store)
    const child = await enqueueJob(store, { queue: 'children' })

    const [settled] = await store.settle([waiting(parent, [child])])

    expect(settled).toMatchObject({ result: 'settled', state: 'blocked' })
    expect(await viewOf(store, parent.id)).toMatchObject({ state: 'blocked', attempt: 0, leasedUntil: null })
    expect(await claimIds(store)).toEqual([])
  },

  'it is ready when the last of them has ended, and keeps its fence and its crashes': async ({
    store,
    clock,
    expect,
  }) => {
    const parent = await startJob(store, {}, { leaseMs: LEASE_MS })
    const children = [await startJob(store, { queue: 'a' }), await startJob(store, { queue: 'b' })]
    await store.settle([
      waiting(
        { ...parent, crashes: 1 },
        children.map(({ id }) => id),
      ),
    ])
    await store.settle([succeeded(children[0]!)])
    expect(await stateOf(store, parent.id)).toBe('blocked')

    await store.settle([succeeded(children[1]!)])

    expect(await stateOf(store, parent.id)).toBe('ready')
    const again = await claimJob(store)
    expect(again).toMatchObject({ id: parent.id, attempt: 1, crashes: 1 })
    expect(again.fence).toBeGreaterThan(parent.fence)
    expect(clock.now()).toBeGreaterThan(0)
  },

  'children that had ended before let it go on immediately': async ({ store, expect }) => {
    const parent = await startJob(store)
    const child = await startJob(store, { queue: 'children' })
    await store.settle([succeeded(child)])

    const [settled] = await store.settle([waiting(parent, [child.id])])

    expect(settled).toMatchObject({ result: 'settled', state: 'ready' })
    expect(await claimIds(store)).toEqual([parent.id])
  },

  ...factsFor(
    [
      ['dead', dead],
      ['cancelled', cancelled],
    ] as const,
    ([state]) => `a child that is ${state} counts as ended, and does not cancel the job that waits`,
    async ({ store, expect }, [, settle]) => {
      const parent = await startJob(store)
      const child = await startJob(store, { queue: 'children' })
      await store.settle([waiting(parent, [child.id])])

      await store.settle([settle(child)])

      expect(await stateOf(store, parent.id)).toBe('ready')
    },
  ),

  'a job that wakes early goes on with the first child that failed': async ({ store, expect }) => {
    const parent = await startJob(store)
    const children = [await startJob(store, { queue: 'a' }), await startJob(store, { queue: 'b' })]
    await store.settle([
      waiting(
        parent,
        children.map(({ id }) => id),
        true,
      ),
    ])

    await store.settle([dead(children[0]!)])

    expect(await stateOf(store, parent.id)).toBe('ready')
  },

  'a job that wakes early waits for all of them while none fails': async ({ store, expect }) => {
    const parent = await startJob(store)
    const children = [await startJob(store, { queue: 'a' }), await startJob(store, { queue: 'b' })]
    await store.settle([
      waiting(
        parent,
        children.map(({ id }) => id),
        true,
      ),
    ])

    await store.settle([succeeded(children[0]!)])

    expect(await stateOf(store, parent.id)).toBe('blocked')
  },

  'it goes before the untimed backlog': async ({ store, expect }) => {
    const parent = await startJob(store)
    const child = await startJob(store, { queue: 'children' })
    const other = await enqueueJob(store)
    await store.settle([waiting(parent, [child.id])])
    await store.settle([succeeded(child)])

    expect(await claimIds(store)).toEqual([parent.id, other])
  },

  'it may wait again, for others': async ({ store, expect }) => {
    const parent = await startJob(store)
    const [one, two] = [await startJob(store, { queue: 'a' }), await startJob(store, { queue: 'b' })]
    await store.settle([waiting(parent, [one.id])])
    await store.settle([succeeded(one)])

    await store.settle([waiting(await claimJob(store), [one.id, two.id])])
    expect(await stateOf(store, parent.id)).toBe('blocked')
    await store.settle([succeeded(two)])

    expect(await stateOf(store, parent.id)).toBe('ready')
  },

  'it can be cancelled, and one whose cancel was asked for does not wait': async ({ store, expect }) => {
    const [waits, asked] = [await startJob(store), await startJob(store)]
    const child = await enqueueJob(store, { queue: 'children' })
    await store.settle([waiting(waits, [child])])
    await store.cancel([waits.id, asked.id], OPERATOR)

    const [settled] = await store.settle([waiting(asked, [child])])

    expect(settled!.state).toBe('cancelled')
    expect(await stateOf(store, waits.id)).toBe('cancelled')
    await store.settle([succeeded(await claimJob(store, { queue: 'children' }))])
    expect(await claimIds(store)).toEqual([])
  },

  'a wait for children that is settled again changes nothing': async ({ store, expect }) => {
    const parent = await startJob(store)
    const child = await startJob(store, { queue: 'children' })
    await store.settle([waiting(parent, [child.id])])

    expect(await store.settle([waiting(parent, [child.id])])).toMatchObject([{ result: 'settled', state: 'blocked' }])
    await store.settle([succeeded(child)])
    expect(await store.settle([waiting(parent, [child.id])])).toMatchObject([{ result: 'settled', state: 'ready' }])
  },

  'a lost lease cannot let its job wait for children': async ({ store, clock, expect }) => {
    const parent = await startJob(store)
    await clock.advance(LEASE_MS + SECOND_MS)
    const child = await enqueueJob(store, { queue: 'children' })
    await store.settle([{ ...succeeded(parent), settlement: { state: 'ready', attempt: 1, crashes: 1 } }], {
      onlyExpired: true,
    })

    expect(await store.settle([waiting(parent, [child])])).toMatchObject([{ result: 'lost' }])
  },

  'jobs that wait for children are settled together with others': async ({ store, expect }) => {
    const child = await enqueueJob(store, { queue: 'children' })
    await store.enqueue([newJob(), newJob(), newJob()])
    const [one, two, three] = await claimJobs(store)

    const results = await store.settle([succeeded(one!), waiting(two!, [child]), dead(three!)])

    expect(results.map(({ state }) => state)).toEqual(['succeeded', 'blocked', 'dead'])
  },

  'children and waits of several processes miss each other never': async ({ store, openPeer, expect }) => {
    const peer = await openPeer()
    const pairs: { parent: ClaimedJob; child: ClaimedJob }[] = []
    for (let made = 0; made < 10; made++) {
      pairs.push({ parent: await startJob(store), child: await startJob(store, { queue: 'children' }) })
    }

    await Promise.all(
      pairs.flatMap(({ parent, child }): Promise<unknown>[] => [
        store.settle([waiting(parent, [child.id])]),
        peer.settle([succeeded(child)]),
      ]),
    )
    await store.promote(100)

    expect((await claimIds(store)).sort()).toEqual(pairs.map(({ parent }) => parent.id).sort())
  },

  'the children that a job waits for are part of its standing': async ({ store, expect }) => {
    const parent = await startJob(store)
    const child = await enqueueJob(store, { queue: 'children', type: 'resize' })
    await store.settle([waiting(parent, [child])])

    const standing = (await store.standing(parent.id))!

    expect(standing.waitsForChildren).toBe(true)
    expect(standing.parents).toEqual([{ id: child, state: 'ready', type: 'resize', queue: 'children' }])
  },
}

/** Under flow control. */
export const childrenFlowFacts: Facts = {
  'a job that waits for its children frees its group and its limits, also for them': async ({ store, expect }) => {
    await setFlow(store, { groups: { concurrency: 1 } })
    await setLimit(store, { concurrency: 1 })
    const parent = await startJob(store, inGroup('acme', { limits: [LIMIT] }))
    const child = await enqueueJob(store, inGroup('acme', { limits: [LIMIT] }))
    expect(await claimIds(store)).toEqual([])

    await store.settle([waiting(parent, [child])])

    const running = await claimJob(store)
    expect(running.id).toBe(child)
    await store.settle([succeeded(running)])
    expect(await claimIds(store)).toEqual([parent.id])
  },

  'an ordered group goes on while one of it waits for its children, which may be of it': async ({ store, expect }) => {
    await setFlow(store, { groups: { ordered: true } })
    const parent = await startJob(store, inGroup())
    const child = await enqueueJob(store, inGroup())
    await store.settle([waiting(parent, [child])])

    const running = await claimJob(store)
    expect(running.id).toBe(child)
    await store.settle([succeeded(running)])

    expect(await claimIds(store)).toEqual([parent.id])
  },

  'a child may name the limit that its parent held': async ({ store, expect }) => {
    await setLimit(store, { concurrency: 1 })
    const parent = await startJob(store, limitedBy(LIMIT))
    const child = await enqueueJob(store, limitedBy(LIMIT))

    await store.settle([waiting(parent, [child])])

    expect(await claimIds(store)).toEqual([child])
  },
}
