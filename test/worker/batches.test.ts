// Batches of one group where groups run one job at a time: what came from one claim is one call, and the next waits for its end.

import type { StandardSchemaV1 } from '@standard-schema/spec'
import { describe, expect, test } from 'vitest'
import { defineJob } from '../../src/client/define-job.js'
import { type Handler, type JobDefinition, RetryJob } from '../../src/core/definition.js'
import { type GroupSettings, NO_GROUP_SETTINGS, NO_QUEUE_FLOW } from '../../src/core/flow/settings.js'
import { groupBatches } from '../../src/worker/batches.js'
import { gate, openStage, type Stage } from './stage.js'

const QUEUE = 'default'
const push = defineJob<string>('push')
const EITHER: readonly [string, Partial<GroupSettings>][] = [
  ['of one job at a time', { concurrency: 1 }],
  ['in order', { ordered: true }],
]

function setGroups(stage: Stage, groups: Partial<GroupSettings>, queue: string = QUEUE): Promise<void> {
  const flow = { ...NO_QUEUE_FLOW, groups: { ...NO_GROUP_SETTINGS, ...groups } }
  return stage.store.setQueue(queue, { limits: {}, flow }, 'ada')
}

/** Enqueues jobs of groups, whose payload is their name: a0, a1, b0, … */
async function enqueue(stage: Stage, names: string, queue: string = QUEUE): Promise<void> {
  for (const name of names.split(' ')) {
    const flow = { group: name[0]!, limits: [], cost: 1 }
    await stage.enqueue({ type: 'push', payload: JSON.stringify(name), queue, flow })
  }
}

/** Runs a worker for a while; answers with the calls of its handler. */
async function callsOf(
  stage: Stage,
  { max = 10, ms = 200, queues = [QUEUE], concurrency = 20 } = {},
  definition: Pick<JobDefinition<string>, 'handleBatch'> = push,
): Promise<string[]> {
  const calls: string[] = []
  const handler = definition.handleBatch({ max, sameGroup: true }, (jobs) => {
    calls.push(jobs.map(({ payload }) => payload).join(' '))
    return jobs
  })
  const worker = stage.worker({ handlers: [handler], queues, concurrency })
  await worker.start()
  await stage.clock.advance(ms)
  await worker.stop()
  return calls
}

describe('a worker that batches one group', () => {
  test.each(EITHER)('gets batches of groups %s', async (_, groups) => {
    const stage = openStage()
    await setGroups(stage, groups)
    await enqueue(stage, 'a0 b0 a1 b1 a2 a3')

    expect((await callsOf(stage, { max: 3 })).sort()).toEqual(['a0 a1 a2', 'a3', 'b0 b1'])
  })

  test.each(EITHER)('never runs two calls of a group %s beside each other', async (_, groups) => {
    const stage = openStage()
    await setGroups(stage, groups)
    await enqueue(stage, 'a0 a1 a2 a3 a4 a5 a6 a7 a8')
    let running = 0
    let most = 0
    const calls: string[] = []
    const door = gate()
    const handler = push.handleBatch({ max: 4, sameGroup: true }, async (jobs) => {
      most = Math.max(most, ++running)
      calls.push(jobs.map(({ payload }) => payload).join(' '))
      if (calls.length === 1) await door.promise
      running--
      return jobs
    })
    const worker = stage.worker({ handlers: [handler], concurrency: 20 })
    await worker.start()
    await stage.clock.advance(500)
    expect(calls).toEqual(['a0 a1 a2 a3'])

    door.open()
    await stage.clock.advance(500)
    await worker.stop()

    expect(calls).toEqual(['a0 a1 a2 a3', 'a4 a5 a6 a7', 'a8'])
    expect(most).toBe(1)
  })

  test('does not wait for the linger when all of a batch have come', async () => {
    const stage = openStage()
    await setGroups(stage, { concurrency: 1 })
    await enqueue(stage, 'a0 a1')
    const calls: number[] = []
    const fromMs = stage.clock.now()
    const handler = push.handleBatch({ max: 10, linger: '5s', sameGroup: true }, (jobs) => {
      calls.push(stage.clock.now() - fromMs)
      return jobs
    })
    const worker = stage.worker({ handlers: [handler], concurrency: 20 })
    await worker.start()
    await stage.clock.advance(1_000)
    await worker.stop()

    expect(calls).toHaveLength(1)
    expect(calls[0]).toBeLessThan(1_000)
  })

  test('runs what has no slot yet after the rest of its batch, not beside it', async () => {
    const stage = openStage()
    await setGroups(stage, { ordered: true })
    await stage.enqueue({ queue: 'aside', type: 'other', payload: 'null' })
    await enqueue(stage, 'a0 a1 a2 a3 a4')
    const [slot, door] = [gate(), gate()]
    const calls: string[] = []
    const other = defineJob('other').handle(() => slot.promise)
    const handler = push.handleBatch({ max: 10, sameGroup: true }, async (jobs) => {
      calls.push(jobs.map(({ payload }) => payload).join(' '))
      if (calls.length === 1) await door.promise
      return jobs
    })
    // Its first claim does not know yet that the queue has flow control, and asks for more than it has slots.
    const queues = ['aside', 'default']
    const worker = stage.worker({ handlers: [handler, other], queues, concurrency: 3, prefetch: 20 })
    await worker.start()
    await stage.clock.advance(100)
    slot.open()
    await stage.clock.advance(100)
    expect(calls).toEqual(['a0 a1'])

    door.open()
    await stage.clock.advance(500)
    await worker.stop()

    expect(calls.join(' ')).toBe('a0 a1 a2 a3 a4')
  })

  test('goes on with a group whose handler hangs when its jobs have been given up', async () => {
    const stage = openStage()
    await setGroups(stage, { concurrency: 1 })
    await enqueue(stage, 'a0 a1 a2 a3')
    const calls: string[] = []
    const short = defineJob<string>('push', { timeout: '1s', maxAttempts: 1 })
    const handler = short.handleBatch({ max: 2, sameGroup: true }, (jobs) => {
      calls.push(jobs.map(({ payload }) => payload).join(' '))
      return calls.length === 1 ? new Promise(() => {}) : jobs
    })
    const worker = stage.worker({ handlers: [handler], concurrency: 20 })
    await worker.start()
    await stage.clock.advance(60_000)
    await worker.stop({ drain: 0 })

    expect(calls).toEqual(['a0 a1', 'a2 a3'])
  })

  test('keeps the order of a group whose payloads are checked in another', async () => {
    const stage = openStage()
    await setGroups(stage, { ordered: true })
    await enqueue(stage, 'a0 a1 a2')
    const schema: StandardSchemaV1<string> = {
      '~standard': {
        version: 1,
        vendor: 'test',
        // The earlier ones take longer.
        validate: async (value) => {
          for (let turns = 0; turns < 30 - 10 * Number(String(value)[1]); turns++) await Promise.resolve()
          return { value: String(value) }
        },
      },
    }
    const checked = defineJob('push', { input: schema })

    expect(await callsOf(stage, {}, checked as never)).toEqual(['a0 a1 a2'])
  })

  test('keeps groups of one name in two queues apart', async () => {
    const stage = openStage()
    for (const queue of ['one', 'two']) await setGroups(stage, { concurrency: 1 }, queue)
    await enqueue(stage, 'a0 a1', 'one')
    await enqueue(stage, 'a2 a3', 'two')

    expect((await callsOf(stage, { queues: ['one', 'two'] })).sort()).toEqual(['a0 a1', 'a2 a3'])
  })

  test('has a retry of its batch run alone, and the group waits for it', async () => {
    const stage = openStage()
    await setGroups(stage, { ordered: true })
    await enqueue(stage, 'a0 a1 a2')
    const calls: string[] = []
    const handler = push.handleBatch({ max: 2, sameGroup: true }, (jobs) => {
      calls.push(jobs.map(({ payload }) => payload).join(' '))
      return jobs.map(({ payload, ctx }) =>
        payload === 'a0' && ctx.attempt === 1 ? new RetryJob('later', { delay: '10s' }) : 'sent',
      )
    })
    const worker = stage.worker({ handlers: [handler], concurrency: 20 })
    const upkeep = stage.upkeep()
    await worker.start()
    await upkeep.start()
    await stage.clock.advance(600)
    expect(calls).toEqual(['a0 a1'])
    await stage.clock.advance(60_000)
    await Promise.all([worker.stop(), upkeep.stop()])

    expect(calls).toEqual(['a0 a1', 'a0 a2'])
  })
})

describe('what a worker asks for', () => {
  const handlersOf = (...handlers: Handler[]) => new Map(handlers.map((one) => [one.definition.type, one]))
  const batch = (type: string, options: { max: number; sameGroup?: boolean }) =>
    defineJob(type).handleBatch(options, () => [])

  test('are batches of the types that batch one group', () => {
    const handlers = handlersOf(
      batch('same', { max: 5, sameGroup: true }),
      batch('any', { max: 5 }),
      batch('single', { max: 1, sameGroup: true }),
      defineJob('plain').handle(() => null),
    )

    expect(groupBatches(handlers, null)).toEqual([{ type: 'same', max: 5 }])
  })

  test('are no batches of types that run in children: nothing gathers them there', () => {
    const handlers = handlersOf(batch('here', { max: 5, sameGroup: true }), batch('there', { max: 5, sameGroup: true }))

    expect(groupBatches(handlers, { isolates: (type) => type === 'there' })).toEqual([{ type: 'here', max: 5 }])
  })
})
