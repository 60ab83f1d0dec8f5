// A handler whose own transaction outlives its lease and is rolled back: the job was rescued by then.

import type pg from 'pg'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { HoldfastEvent } from '../../src/core/events.js'
import type { Store } from '../../src/core/store.js'
import { connect, defineJob, type Holdfast, type JobContext } from '../../src/index.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { crashed } from '../../src/testing/store-suite/samples.js'
import { Stage } from '../support/stage.js'

const work = defineJob('work', { queue: 'default' })

// F51 of docs/findings/chaos.md.
describe('complete(tx) and a rollback after the lease has run out', { timeout: 30_000 }, () => {
  let stage: Stage
  let store: Store
  let holdfast: Holdfast
  let tx: pg.Client
  let events: HoldfastEvent[]

  beforeEach(async () => {
    stage = await Stage.open()
    store = await postgresStore(stage.config.url, { schema: stage.config.schema })
    holdfast = await connect(stage.config.url, { schema: stage.config.schema, upkeep: false })
    events = []
    holdfast.on((event) => void events.push(event))
    tx = await stage.sql()
  })
  afterEach(async () => {
    await holdfast.close()
    await store.close()
    await stage.close()
  })

  test('a handler that goes on is notified that its lease is lost', async () => {
    const ended = run(async (ctx) => {
      await rollBackTooLate(ctx)
      await new Promise((resolve) => ctx.signal.addEventListener('abort', resolve))
      return ctx.signal.reason
    })

    expect(await ended).toMatchObject({ code: 'lease_lost' })
    expect(named('lease.lost')).toHaveLength(1)
    expect(named('job.settled')).toEqual([])
  })

  test.each([
    ['returns', async () => 'done'],
    [
      'throws',
      async () => {
        throw new Error('the transaction was rolled back')
      },
    ],
  ])('a handler that %s immediately has lost its lease, and its run is no success', async (_how, end) => {
    await run(async (ctx) => {
      await rollBackTooLate(ctx)
      return end()
    })

    await expect.poll(() => named('lease.lost'), { timeout: 5_000 }).toHaveLength(1)
    expect(named('job.settled')).toEqual([])
    expect(named('job.ended')).toMatchObject([{ outcome: 'lost' }])
  })

  test('a handler that goes on after its commit is left in peace', async () => {
    let wasAborted = true
    const ended = run(async (ctx) => {
      await tx.query('BEGIN')
      await ctx.complete(tx)
      await tx.query('COMMIT')
      // Longer than a lease, and several heartbeats and patrols.
      await new Promise((resolve) => setTimeout(resolve, 4_000))
      wasAborted = ctx.signal.aborted
    })

    await ended
    expect(wasAborted).toBe(false)
    await expect.poll(() => named('job.settled')).toMatchObject([{ state: 'succeeded' }])
    expect(named('lease.lost')).toEqual([])
  })

  function named(name: HoldfastEvent['name']): HoldfastEvent[] {
    return events.filter((event) => event.name === name)
  }

  /** Runs one job, and resolves with what its handler returned or raised. */
  async function run(handler: (ctx: JobContext) => Promise<unknown>): Promise<unknown> {
    const { id } = await holdfast.enqueue(work, {})
    return new Promise((resolve) => {
      const worker = holdfast.worker({
        lease: '3s',
        heartbeat: '1500ms',
        handlers: [
          work.handle((_payload, ctx) => {
            expect(ctx.id).toBe(id)
            const running = handler(ctx)
            running.then(resolve, resolve)
            return running as Promise<undefined>
          }),
        ],
      })
      void worker.start()
    })
  }

  async function rollBackTooLate(ctx: JobContext): Promise<void> {
    await tx.query('BEGIN')
    await ctx.complete(tx)
    await expect.poll(async () => (await store.expired(10)).jobs, { timeout: 10_000 }).toHaveLength(1)
    // Right after a heartbeat, so that the next one is far enough away for another process to be first.
    const count = named('lease.extended').length
    await expect.poll(() => named('lease.extended').length, { interval: 5, timeout: 5_000 }).toBeGreaterThan(count)
    await tx.query('ROLLBACK')
    const [job] = (await store.expired(10)).jobs
    expect(await store.settle([crashed(job!, 60_000)], { onlyExpired: true })).toMatchObject([{ result: 'settled' }])
  }
})
