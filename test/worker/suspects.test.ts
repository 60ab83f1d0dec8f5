import { describe, expect, test } from 'vitest'
import { type Gate, gate, openStage, type Stage, work } from './stage.js'

// Jobs that were lost with their worker once before, ready again.
async function enqueueSuspects(stage: Stage, count: number): Promise<string[]> {
  const ids: string[] = []
  for (let index = 0; index < count; index++) ids.push(await stage.enqueue())
  await loseWorker(stage)
  return ids
}

async function loseWorker(stage: Stage): Promise<void> {
  const { store, clock } = stage
  const request = { queues: [{ queue: 'default', limit: 100 }], types: null, worker: 'gone', leaseMs: 1_000 }
  const { jobs } = await store.claim(request)
  await store.begin(jobs)
  await clock.advance(1_000)
  const upkeep = stage.upkeep()
  await upkeep.tick()
  await clock.advance(3_600_000)
  await upkeep.tick()
}

describe('jobs that were lost with their worker before', () => {
  test('run in a quarter of the slots, and others go on beside them', async () => {
    const stage = openStage()
    const suspects = await enqueueSuspects(stage, 3)
    const plain = [await stage.enqueue(), await stage.enqueue()]
    const ends = new Map<string, Gate>()
    const worker = stage.worker({
      concurrency: 8,
      handlers: [
        work((_payload, ctx) => {
          const end = gate()
          ends.set(ctx.id, end)
          return end.promise
        }),
      ],
    })
    const runningSuspects = () => suspects.filter((id) => ends.has(id))

    const ticking = worker.tick()
    await stage.clock.advance(0)
    const first = runningSuspects()
    const beside = plain.filter((id) => ends.has(id))
    for (let round = 0; round < 3; round++) {
      for (const end of ends.values()) end.open()
      await stage.clock.advance(0)
    }
    await ticking

    expect(first).toHaveLength(2)
    expect(beside).toEqual(plain)
    expect(runningSuspects()).toHaveLength(3)
    for (const id of suspects) expect(await stage.get(id)).toMatchObject({ state: 'succeeded', crashes: 1 })
  })

  test('the store is notified before the handler of one starts', async () => {
    const stage = openStage()
    await enqueueSuspects(stage, 1)
    const begunBefore = stage.calls('begin')
    let begunAtStart = 0
    const worker = stage.worker({
      handlers: [
        work(() => {
          begunAtStart = stage.calls('begin') - begunBefore
        }),
      ],
    })

    await worker.tick()

    expect(begunAtStart).toBe(1)
  })

  test('one whose start could not be recorded in the store is given back and comes again', async () => {
    const stage = openStage()
    const [id] = await enqueueSuspects(stage, 1)
    let calls = 0
    const worker = stage.worker({ handlers: [work(() => void calls++)] })

    stage.fail(['begin'])
    await worker.tick()
    const released = await stage.get(id!)
    stage.heal()
    await stage.clock.advance(3_000)
    await stage.upkeep().tick()
    await worker.tick()

    expect(released).toMatchObject({ state: 'scheduled', attempt: 1, crashes: 1 })
    expect(calls).toBe(1)
  })

  test('those that wait too long for each other are given back with a short delay', async () => {
    const stage = openStage()
    const ids = await enqueueSuspects(stage, 3)
    const end = gate()
    const worker = stage.worker({ handlers: [work(() => end.promise)], concurrency: 4, prefetch: 0 })

    await worker.start()
    await stage.clock.advance(3_000)
    const states = await Promise.all(ids.map(async (id) => (await stage.get(id)).state))
    end.open()
    await worker.stop()

    expect(states.sort()).toEqual(['running', 'scheduled', 'scheduled'])
  })

  test('a job that takes its worker down every time is dead after three crashes, and those beside it are unharmed', async () => {
    const stage = openStage()
    const poison = await stage.enqueue()
    const neighbour = await stage.enqueue()
    await loseWorker(stage)

    // Twice more the poison runs alone, while its neighbour waits in the same worker, and the worker dies.
    for (let round = 0; round < 2; round++) {
      const request = { queues: [{ queue: 'default', limit: 9 }], types: null, worker: 'gone', leaseMs: 1_000 }
      const { jobs } = await stage.store.claim(request)
      await stage.store.begin(jobs.filter(({ id }) => id === poison))
      await stage.clock.advance(1_000)
      const upkeep = stage.upkeep()
      await upkeep.tick()
      await stage.clock.advance(3_600_000)
      await upkeep.tick()
    }
    await stage.worker({ handlers: [work(() => 'fine')] }).tick()

    expect(await stage.get(poison)).toMatchObject({ state: 'dead', reason: 'crashed', crashes: 3 })
    expect(await stage.get(neighbour)).toMatchObject({ state: 'succeeded', crashes: 1 })
  })

  test('a suspect that is still running after five seconds makes room for the next', async () => {
    const stage = openStage()
    await enqueueSuspects(stage, 2)

    const started = await startedWithin(stage, { concurrency: 4, msList: [4_900, 9_900] })

    expect(started).toEqual([1, 2])
  })

  test('one that would be dead after one more crash runs as the only suspect, however long it takes', async () => {
    const stage = openStage()
    await enqueueSuspects(stage, 3)
    await loseWorker(stage)

    const started = await startedWithin(stage, { concurrency: 64, msList: [4_900, 60_000] })

    expect(started).toEqual([1, 1])
  })

  test('the next suspect waits until the settlement of one on its last chance is confirmed', async () => {
    const stage = openStage()
    await enqueueSuspects(stage, 2)
    await loseWorker(stage)
    const began: string[] = []
    const worker = stage.worker({ handlers: [work((_payload, ctx) => void began.push(ctx.id))] })

    stage.fail(['settle'])
    const ticking = worker.tick()
    await stage.clock.advance(1_000)
    const beganUnconfirmed = began.length
    stage.heal()
    await stage.clock.advance(60_000)
    await ticking

    expect(beganUnconfirmed).toBe(1)
    expect(began).toHaveLength(2)
  })
})

/** How many jobs a worker whose handlers never end has started by each of these times. */
async function startedWithin(
  stage: Stage,
  { concurrency, msList }: { readonly concurrency: number; readonly msList: readonly number[] },
): Promise<number[]> {
  const running = new Set<string>()
  const forever = work((_payload, ctx) => {
    running.add(ctx.id)
    return new Promise(() => {})
  })
  const worker = stage.worker({ handlers: [forever], concurrency })
  const upkeep = stage.upkeep()
  await worker.start()
  upkeep.start()
  const counts: number[] = []
  let passedMs = 0
  for (const ms of msList) {
    await stage.clock.advance(ms - passedMs)
    passedMs = ms
    counts.push(running.size)
  }
  await upkeep.stop()
  const stopping = worker.stop({ drain: 0 })
  await stage.clock.advance(1_000)
  await stopping
  return counts
}
