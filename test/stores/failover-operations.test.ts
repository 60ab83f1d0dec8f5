// What operators asked for is done again on a standby that was promoted without it, and what is newer there stays.

import pg from 'pg'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { PostgresPair } from '../../lab/servers/standby.js'
import { type ConnectOptions, connect, DropJob, defineJob, type Holdfast, type HoldfastEvent } from '../../src/index.js'

let pair: PostgresPair
const opened: Holdfast[] = []
const events: HoldfastEvent[] = []

beforeEach(async () => {
  pair = await PostgresPair.open({ settings: { fsync: 'off' } })
  events.length = 0
}, 60_000)

afterEach(async () => {
  await Promise.all(opened.splice(0).map((holdfast) => holdfast.close()))
  await pair.close()
}, 60_000)

async function open(options: ConnectOptions = {}): Promise<Holdfast> {
  const hosts = [pair.primary, pair.standby].map(({ port }) => `127.0.0.1:${port}`)
  const url = `postgres://holdfast@${hosts.join(',')}/postgres`
  const holdfast = await connect(url, { failoverMemory: true, ...options })
  holdfast.on((event) => events.push(event))
  opened.push(holdfast)
  return holdfast
}

const named = <Name extends HoldfastEvent['name']>(name: Name) =>
  events.filter((event): event is Extract<HoldfastEvent, { name: Name }> => event.name === name)

async function loseTheNext(): Promise<void> {
  await pair.caughtUp()
  await pair.cutOff()
}

describe('a failover that lost what operators asked for', () => {
  test('cancels, changes, pauses and replaced payloads are done again', async () => {
    const operator = await open({ upkeep: false })
    const [cancelled, changed, replaced] = [
      await operator.enqueue('work', { number: 1 }),
      await operator.enqueue('work', { number: 2 }),
      await operator.enqueue('work', { number: 3 }, { replace: { key: 'one' } }),
    ]
    await operator.pause('mail')
    await loseTheNext()
    await operator.cancel(cancelled.id)
    await operator.update(changed.id, { priority: 7 })
    await operator.update(changed.id, { payload: { number: 20 } })
    const again = await operator.enqueue('work', { number: 30 }, { replace: { key: 'one' } })
    expect(again.id).toBe(replaced.id)
    await operator.pause('default')
    await operator.resume('mail')

    await pair.failOver()
    await operator.enqueue('work')

    await expect.poll(() => named('failover.said'), { timeout: 10_000 }).toMatchObject([{ operations: 5 }])
    expect((await operator.get(cancelled.id))?.state).toBe('cancelled')
    expect(await operator.get(changed.id)).toMatchObject({ priority: 7, payload: { number: 20 } })
    expect(await operator.get(replaced.id)).toMatchObject({ state: 'ready', payload: { number: 30 } })
    const paused = (await operator.queues()).filter(({ paused }) => paused).map(({ name }) => name)
    expect(paused).toEqual(['default'])
  }, 30_000)

  test('a requeue is done again, also by the worker that has run the job since', async () => {
    const operator = await open({ upkeep: false })
    const working = await open()
    let runs = 0
    const work = defineJob('work').handle(async () => {
      runs++
      if (runs <= 2) throw new DropJob('no')
    })
    await working.worker({ handlers: [work] }).start()
    const [ran, waits] = [await operator.enqueue('work'), await operator.enqueue('work')]
    await Promise.allSettled([operator.wait(ran.id), operator.wait(waits.id)])
    await loseTheNext()
    await operator.requeue(ran.id)
    await operator.wait(ran.id)
    await operator.pause('default')
    await operator.requeue(waits.id)

    await pair.failOver()
    await expect.poll(() => named('failover.said').length, { timeout: 15_000 }).toBe(2)

    expect((await operator.get(ran.id))?.state).toBe('succeeded')
    expect((await operator.get(waits.id))?.state).toBe('ready')
    expect(runs).toBe(3)
  }, 40_000)

  test('a deleted job stays deleted: the delete is done again, and who enqueued the job does not bring it back', async () => {
    const [operator, producer] = [await open({ upkeep: false }), await open({ upkeep: false })]
    const replicated = await producer.enqueue('work', { secret: 1 })
    const deletedLate = await producer.enqueue('work', { secret: 2 })
    await operator.delete(replicated.id)
    await loseTheNext()
    await operator.delete(deletedLate.id)
    const lost = await producer.enqueue('work', { secret: 3 })
    await operator.delete(lost.id)
    const own = await operator.enqueue('work', { secret: 4 })
    await operator.delete(own.id)

    await pair.failOver()
    const after = await operator.enqueue('work')
    await producer.enqueue('work')
    await expect.poll(() => named('failover.said').length, { timeout: 15_000 }).toBe(2)

    const all = [replicated, deletedLate, lost, own]
    expect(await Promise.all(all.map(({ id }) => producer.get(id)))).toEqual([null, null, null, null])
    expect((await operator.get(after.id))?.state).toBe('ready')
  }, 40_000)

  test('what was asked for since on the new server stays', async () => {
    const operator = await open({ upkeep: false })
    const { id } = await operator.enqueue('work')
    await loseTheNext()
    await operator.update(id, { priority: 7 })
    await operator.pause('default')
    const thaw = await pair.freeze()
    await pair.promote()
    const other = await open({ upkeep: false, failoverMemory: false })
    await other.update(id, { priority: 3 })
    await other.pause('default')
    await other.resume('default')

    await expect.poll(() => named('failover.said').length, { timeout: 15_000 }).toBe(1)
    thaw()

    expect((await operator.get(id))?.priority).toBe(3)
    expect((await operator.queues()).filter(({ paused }) => paused)).toEqual([])
  }, 40_000)
})

test('a standby as old as a backup: what is still remembered comes back, and what is older stays lost', async () => {
  const producer = await open({ upkeep: false, failoverMemory: { jobsMax: 100 } })
  await producer.enqueue('work')
  await loseTheNext()
  const old = await producer.enqueue('work')
  const young = await producer.enqueueMany('work', Array(100).fill({}))

  await pair.failOver()

  await expect.poll(() => named('failover.said'), { timeout: 10_000 }).toMatchObject([{ jobs: 100 }])
  expect(await producer.get(old.id)).toBeNull()
  expect((await producer.get(young[0]!.id))?.state).toBe('ready')
}, 30_000)

describe('what only a dead process knew', () => {
  test('is named by an event, the audit log and doctor: the window, who is silent, and how many jobs at most', async () => {
    const [living, dying] = [await open({ upkeep: false }), await open({ upkeep: false })]
    await living.enqueue('work')
    await dying.enqueueMany('work', Array(50).fill({}))
    const marks = () => ask<number>('SELECT count(*)::int FROM holdfast.marks')
    await expect.poll(marks, { timeout: 5_000 }).toBe(2)
    await loseTheNext()
    await dying.enqueueMany('work', Array(30).fill({}))
    await living.enqueueMany('work', Array(10).fill({}))
    // It forgets what it knows, as if it had been killed.
    opened.splice(opened.indexOf(dying), 1)
    await dying.close()

    await pair.failOver()
    await expect.poll(() => named('failover.said').length, { timeout: 10_000 }).toBe(1)
    await expect.poll(() => named('failover.missing'), { timeout: 20_000 }).toHaveLength(1)

    const [missing] = named('failover.missing')
    expect(missing).toMatchObject({ clients: 1, processes: expect.stringContaining(`:${process.pid}`) })
    expect(missing!.jobsMax).toBeGreaterThanOrEqual(30)
    const { entries } = await living.audit({ action: 'may_be_missing' })
    expect(entries).toMatchObject([{ actor: 'holdfast', details: { clients: 1, jobsMax: missing!.jobsMax } }])
  }, 60_000)

  test('is forgotten as soon as every standby has it', async () => {
    const producer = await open({ upkeep: false })
    const jobs = await producer.enqueueMany('work', Array(500).fill({}))
    expect(jobs).toHaveLength(500)
    await pair.caughtUp()
    // The marks of the first seconds tell it how far the standby is; from then on a failover finds nothing to look for.
    await new Promise((resolve) => setTimeout(resolve, 5_000))
    await ask('DELETE FROM holdfast.ready')
    await ask('DELETE FROM holdfast.jobs')
    await pair.failOver()

    await producer.enqueue('work')
    await expect.poll(() => named('failover.said'), { timeout: 10_000 }).toMatchObject([{ jobs: 0 }])
  }, 60_000)
})

async function ask<T>(text: string): Promise<T> {
  const client = new pg.Client({ connectionString: pair.primary.url })
  await client.connect()
  try {
    return (await client.query({ text, rowMode: 'array' })).rows[0]?.[0]
  } finally {
    await client.end()
  }
}
