// Signals, and jobs that leave their slot until one comes.

import type { ClaimedJob, SettledJob } from '../../core/job.js'
import { SIGNALS_MAX } from '../../core/kept/kept.js'
import type { Store } from '../../core/store.js'
import { type Facts, factsFor } from './context.js'
import { inGroup, LIMIT, limitedBy, setFlow, setLimit } from './flow-samples.js'
import { MINUTE_MS, newId, OPERATOR, QUEUE, SECOND_MS, snoozed, succeeded } from './samples.js'
import { claimIds, claimJob, claimJobs, enqueueJob, jobIn, startJob, stateOf, viewOf } from './steps.js'

/** The settlement of a job that waits for a signal. */
function parked(job: ClaimedJob, name: string, { seen = 0, turn = 1, delayMs = MINUTE_MS } = {}): SettledJob {
  return snoozed(job, delayMs, { wait: { name, turn, seen } })
}

async function send(store: Store, id: string, name: string, value = 'true', key: string = newId()) {
  return (await store.signal([{ id, key, name, value, by: OPERATOR }]))[0]!
}

const waiting: Facts = {
  'a job that waits for a signal is scheduled, without a lease, and says for what it waits': async ({
    store,
    clock,
    expect,
  }) => {
    const job = await startJob(store)
    await store.settle([parked(job, 'approved')])

    expect(await viewOf(store, job.id)).toMatchObject({
      state: 'scheduled',
      attempt: 0,
      leasedUntil: null,
      runAt: new Date(clock.now() + MINUTE_MS),
      wait: { name: 'approved', since: new Date(clock.now()), until: new Date(clock.now() + MINUTE_MS) },
    })
    expect(await claimIds(store)).toEqual([])
  },

  'a signal makes the job ready that waits for it, and the job gets it': async ({ store, expect }) => {
    const job = await startJob(store)
    await store.settle([parked(job, 'approved')])

    expect(await send(store, job.id, 'approved', '{"by":"ada"}')).toEqual({
      id: job.id,
      result: 'signalled',
      woken: true,
    })

    const again = await claimJob(store)
    expect(again).toMatchObject({ id: job.id, attempt: 1 })
    expect((await store.recall(again))!.signals).toMatchObject([{ name: 'approved', value: '{"by":"ada"}' }])
  },

  'a signal wakes the listeners of the queue': async ({ store, expect }) => {
    const job = await startJob(store)
    await store.settle([parked(job, 'approved')])
    const woken = new Promise<string>((resolve) => {
      store.listen({ ready: (queue) => resolve(queue) })
    })

    await send(store, job.id, 'approved')

    expect(await woken).toBe(QUEUE)
  },

  'a signal of another name leaves the job where it is, and is kept': async ({ store, expect }) => {
    const job = await startJob(store)
    await store.settle([parked(job, 'approved')])

    expect(await send(store, job.id, 'paid')).toMatchObject({ woken: false })

    expect(await stateOf(store, job.id)).toBe('scheduled')
    expect((await viewOf(store, job.id)).wait!.name).toBe('approved')
  },

  'a signal that came before the wait makes the job ready immediately': async ({ store, expect }) => {
    const job = await startJob(store)
    await send(store, job.id, 'approved')

    const [settled] = await store.settle([parked(job, 'approved')])

    expect(settled).toMatchObject({ result: 'settled', state: 'ready' })
    expect(await claimIds(store)).toEqual([job.id])
  },

  'a job that knew of a signal waits for the next one': async ({ store, expect }) => {
    const job = await startJob(store)
    await send(store, job.id, 'message', '1')
    await store.settle([parked(job, 'message', { seen: 1, turn: 2 })])
    expect(await stateOf(store, job.id)).toBe('scheduled')

    await send(store, job.id, 'message', '2')

    expect((await store.recall(await claimJob(store)))!.signals.map(({ value }) => value)).toEqual(['1', '2'])
  },

  'a signal to a job that was not claimed yet is kept': async ({ store, expect }) => {
    const id = await enqueueJob(store)

    expect(await send(store, id, 'approved')).toEqual({ id, result: 'signalled', woken: false })

    expect((await store.recall(await claimJob(store)))!.signals).toHaveLength(1)
  },

  'signals that are sent together are answered in order, and those of one job are kept in theirs': async ({
    store,
    expect,
  }) => {
    const [waits, other] = [await startJob(store), await startJob(store)]
    await store.settle([parked(waits, 'approved')])
    const gone = newId()
    const signals = [
      { id: other.id, name: 'message', value: '1', key: 'one' },
      { id: gone, name: 'message', value: '1', key: 'one' },
      { id: waits.id, name: 'approved', value: '2', key: 'two' },
      { id: other.id, name: 'message', value: '3', key: 'three' },
      { id: other.id, name: 'message', value: '4', key: 'one' },
    ]

    const answers = await store.signal(signals.map((sent) => ({ ...sent, by: OPERATOR })))

    expect(answers).toEqual([
      { id: other.id, result: 'signalled', woken: false },
      { id: gone, result: 'missing' },
      { id: waits.id, result: 'signalled', woken: true },
      { id: other.id, result: 'signalled', woken: false },
      { id: other.id, result: 'signalled', woken: false },
    ])
    expect((await store.recall(other))!.signals.map(({ value }) => value)).toEqual(['1', '3'])
    expect(await claimIds(store)).toEqual([waits.id])
  },

  'signals of several processes to the same jobs, sent together, wait for each other and are all kept': async ({
    store,
    openPeer,
    expect,
  }) => {
    const peer = await openPeer()
    for (let made = 0; made < 20; made++) await enqueueJob(store)
    const jobs = await claimJobs(store)
    const signals = jobs.map(({ id }) => ({ id, name: 'message', value: '1', by: OPERATOR }))

    await Promise.all([
      store.signal(signals.map((sent) => ({ ...sent, key: 'one' }))),
      peer.signal([...signals].reverse().map((sent) => ({ ...sent, key: 'other' }))),
    ])

    const kept = await Promise.all(jobs.map(async (job) => (await store.recall(job))!.signals.length))
    expect(kept).toEqual(jobs.map(() => 2))
  },

  'a signal that is sent again changes nothing, also after its job has finished': async ({ store, expect }) => {
    const job = await startJob(store)
    await send(store, job.id, 'approved', '1', 'event-1')
    expect(await send(store, job.id, 'approved', '2', 'event-1')).toEqual({
      id: job.id,
      result: 'signalled',
      woken: false,
    })
    expect((await store.recall(job))!.signals).toMatchObject([{ key: 'event-1', value: '1' }])

    await store.settle([succeeded(job)])

    expect(await send(store, job.id, 'approved', '1', 'event-1')).toMatchObject({ result: 'signalled' })
  },

  ...factsFor(
    ['succeeded', 'dead', 'cancelled'],
    (state) => `a signal to a job that is ${state} is refused`,
    async ({ store, expect }, state) => {
      const id = await jobIn(store, state)

      expect(await send(store, id, 'approved')).toEqual({ id, result: 'refused', state })
    },
  ),

  'a signal to a job that does not exist is missing': async ({ store, expect }) => {
    const id = newId()

    expect(await send(store, id, 'approved')).toEqual({ id, result: 'missing' })
  },

  'a job has at most a thousand signals': async ({ store, expect }) => {
    const id = await enqueueJob(store)
    for (let sent = 0; sent < SIGNALS_MAX; sent += 100) {
      await Promise.all(Array.from({ length: 100 }, () => send(store, id, 'message')))
    }

    expect(await send(store, id, 'message')).toEqual({ id, result: 'full' })
    expect((await store.recall(await claimJob(store)))!.signals).toHaveLength(SIGNALS_MAX)
  },

  'a job whose time is over becomes ready without the signal, and knows since when': async ({
    store,
    clock,
    expect,
  }) => {
    const job = await startJob(store)
    await store.settle([parked(job, 'approved')])
    const until = clock.now() + MINUTE_MS
    await clock.advance(MINUTE_MS)

    await store.promote(10)

    const again = await claimJob(store)
    expect((await store.recall(again))!.wait).toEqual({ name: 'approved', turn: 1, untilMs: until })
    expect('wait' in (await viewOf(store, job.id))).toBe(false)
  },

  'a job that waits again for the same keeps the time since when': async ({ store, clock, expect }) => {
    const job = await startJob(store)
    const since = new Date(clock.now())
    await store.settle([parked(job, 'approved')])
    await clock.advance(SECOND_MS)
    await store.update(job.id, { runAtMs: null }, OPERATOR)
    await store.promote(10)

    await store.settle([parked(await claimJob(store), 'approved', { delayMs: MINUTE_MS - SECOND_MS })])

    expect((await viewOf(store, job.id)).wait!.since).toEqual(since)
  },

  'a job that snoozes after a wait waits for no signal': async ({ store, clock, expect }) => {
    const job = await startJob(store)
    await store.settle([parked(job, 'approved')])
    await clock.advance(MINUTE_MS)
    await store.promote(10)
    await store.settle([snoozed(await claimJob(store), MINUTE_MS)])

    expect('wait' in (await viewOf(store, job.id))).toBe(false)
    expect(await send(store, job.id, 'approved')).toMatchObject({ woken: false })
    expect(await stateOf(store, job.id)).toBe('scheduled')
  },

  'a job that waits can be cancelled, and one whose cancel was asked for does not wait': async ({ store, expect }) => {
    const [waits, asked] = [await startJob(store), await startJob(store)]
    await store.settle([parked(waits, 'approved')])
    await store.cancel([waits.id, asked.id], OPERATOR)

    const [settled] = await store.settle([parked(asked, 'approved')])

    expect(settled!.state).toBe('cancelled')
    expect(await stateOf(store, waits.id)).toBe('cancelled')
    expect(await send(store, waits.id, 'approved')).toMatchObject({ result: 'refused' })
  },

  'a settlement with a wait that is sent again changes nothing': async ({ store, expect }) => {
    const job = await startJob(store)
    await store.settle([parked(job, 'approved')])

    expect(await store.settle([parked(job, 'approved')])).toMatchObject([{ result: 'settled', state: 'scheduled' }])
    await send(store, job.id, 'approved')
    expect(await store.settle([parked(job, 'approved')])).toMatchObject([{ result: 'settled', state: 'ready' }])
    expect(await claimIds(store)).toEqual([job.id])
  },

  'a lost lease cannot let its job wait': async ({ store, expect }) => {
    const job = await startJob(store)
    await store.settle([parked(job, 'approved')])
    await send(store, job.id, 'approved')
    const again = await claimJob(store)

    expect(await store.settle([parked(job, 'other')])).toMatchObject([{ result: 'lost' }])
    expect((await store.recall(again))!.wait!.name).toBe('approved')
  },

  'jobs that wait are settled together with others': async ({ store, expect }) => {
    for (let made = 0; made < 4; made++) await enqueueJob(store)
    const [one, two, three, four] = await claimJobs(store)
    await send(store, three!.id, 'approved')

    const results = await store.settle([
      succeeded(one!),
      parked(two!, 'approved'),
      parked(three!, 'approved'),
      snoozed(four!, MINUTE_MS),
    ])

    expect(results.map(({ state }) => state)).toEqual(['succeeded', 'scheduled', 'ready', 'scheduled'])
  },

  'signals and waits of several processes miss each other never': async ({ store, openPeer, expect }) => {
    const peer = await openPeer()
    for (let made = 0; made < 20; made++) await enqueueJob(store)
    const jobs = await claimJobs(store)

    await Promise.all(
      jobs.flatMap(
        (job) => [store.settle([parked(job, 'approved')]), send(peer, job.id, 'approved')] as Promise<unknown>[],
      ),
    )

    expect((await claimIds(store)).sort()).toEqual(jobs.map(({ id }) => id).sort())
  },

  'what a job waits for is part of its standing': async ({ store, clock, expect }) => {
    const job = await startJob(store)
    await store.settle([parked(job, 'approved')])

    expect((await store.standing(job.id))!.wait).toEqual({
      name: 'approved',
      since: new Date(clock.now()),
      until: new Date(clock.now() + MINUTE_MS),
    })
  },
}

/** Waiting jobs under flow control. */
export const signalFlowFacts: Facts = {
  'a job that waits for a signal frees its group, and takes its turn when it comes': async ({ store, expect }) => {
    await setFlow(store, { groups: { concurrency: 1 } })
    const job = await startJob(store, inGroup())
    const next = await enqueueJob(store, inGroup())
    expect(await claimIds(store)).toEqual([])

    await store.settle([parked(job, 'approved')])

    const running = await claimJob(store)
    expect(running.id).toBe(next)
    expect(await send(store, job.id, 'approved')).toMatchObject({ woken: true })
    expect(await claimIds(store)).toEqual([])
    await store.settle([succeeded(running)])
    expect(await claimIds(store)).toEqual([job.id])
  },

  'a job that waits for a signal frees its limits': async ({ store, expect }) => {
    await setLimit(store, { concurrency: 1 })
    const job = await startJob(store, limitedBy(LIMIT))
    const next = await enqueueJob(store, limitedBy(LIMIT))

    await store.settle([parked(job, 'approved')])

    expect(await claimIds(store)).toEqual([next])
  },

  'a job that waits for a signal holds its ordered group, which goes on with it': async ({ store, expect }) => {
    await setFlow(store, { groups: { ordered: true } })
    const job = await startJob(store, inGroup())
    const next = await enqueueJob(store, inGroup())
    await store.settle([parked(job, 'approved')])
    expect(await claimIds(store)).toEqual([])

    await send(store, job.id, 'approved')

    const again = await claimJob(store)
    expect(again.id).toBe(job.id)
    await store.settle([succeeded(again)])
    expect(await claimIds(store)).toEqual([next])
  },

  'a job whose signal is there already is ready in its group immediately': async ({ store, expect }) => {
    await setFlow(store, { groups: { concurrency: 1 } })
    const job = await startJob(store, inGroup())
    await send(store, job.id, 'approved')

    await store.settle([parked(job, 'approved')])

    expect(await claimIds(store)).toEqual([job.id])
  },
}

export const signalFacts: Facts = waiting
