import { describe, expect, test } from 'vitest'
import type { JobContext } from '../../src/core/definition.js'
import type { SettledJob } from '../../src/core/job.js'
import type { Queryable } from '../../src/core/job-store.js'
import type { Store } from '../../src/core/store.js'
import { gate, openStage, type Stage, work } from './stage.js'

describe('what a handler is given', () => {
  test('the facts of its job and of this claim', async () => {
    const stage = openStage()
    const id = await stage.enqueue({ tags: ['blue'], limits: { maxAttempts: 4 } })
    let ctx!: JobContext
    const worker = stage.worker({
      handlers: [
        work((_payload, given) => {
          ctx = given
        }),
      ],
    })

    await worker.tick()

    const { type, queue, attempt, maxAttempts, fence, createdAt, tags } = ctx
    expect({ id: ctx.id, type, queue, attempt, maxAttempts, tags }).toEqual({
      id,
      type: 'work',
      queue: 'default',
      attempt: 1,
      maxAttempts: 4,
      tags: ['blue'],
    })
    expect(fence).toBeGreaterThan(0)
    expect(createdAt.getTime()).toBe(stage.clock.now())
    expect(ctx.signal.aborted).toBe(false)
  })

  test('its parts work taken out of it', async () => {
    const stage = openStage()
    const id = await stage.enqueue()
    const worker = stage.worker({
      handlers: [
        work(async (_payload, { log, progress, snooze }) => {
          log('taken out')
          progress(1)
          snooze('1m')
        }),
      ],
    })

    await worker.tick()

    expect(await stage.get(id)).toMatchObject({ state: 'scheduled', progress: 1, logs: [{ text: 'taken out' }] })
  })

  test('progress and log lines of a running job are shown within a second', async () => {
    const stage = openStage()
    const id = await stage.enqueue()
    const end = gate()
    const worker = stage.worker({
      handlers: [
        work(async (_payload, ctx) => {
          ctx.progress({ done: 1 })
          ctx.progress({ done: 2 })
          ctx.log('first')
          ctx.log('second')
          await end.promise
        }),
      ],
    })

    const ticking = worker.tick()
    await stage.clock.advance(1_000)
    const during = await stage.get(id)
    end.open()
    await ticking

    expect(during.progress).toEqual({ done: 2 })
    expect(during.logs.map(({ text }) => text)).toEqual(['first', 'second'])
    expect(stage.calls('note')).toBe(1)
  })

  test('what was noted last is written before the job is settled', async () => {
    const stage = openStage()
    const id = await stage.enqueue()
    const worker = stage.worker({
      handlers: [
        work(async (_payload, ctx) => {
          ctx.progress(100)
          ctx.log('over')
        }),
      ],
    })

    await worker.tick()

    const job = await stage.get(id)
    expect(job).toMatchObject({ state: 'succeeded', progress: 100 })
    expect(job.logs).toMatchObject([{ text: 'over' }])
  })

  test('notes are bounded: a thousand lines, 4 KiB each, 16 KiB of progress', async () => {
    const stage = openStage()
    const id = await stage.enqueue()
    const worker = stage.worker({
      handlers: [
        work(async (_payload, ctx) => {
          ctx.progress('x'.repeat(20_000))
          ctx.log('y'.repeat(5_000))
          for (let line = 0; line < 1_500; line++) ctx.log(`line ${line}`)
        }),
      ],
    })

    await worker.tick()

    const { progress, logs } = await stage.get(id)
    expect(progress).toMatchObject({ unserializable: true })
    expect(logs).toHaveLength(1_000)
    expect(logs[0]!.text.length).toBeLessThanOrEqual(4_096)
    expect(logs[0]!.text).toContain('(cut)')
  })

  test('hostile notes harm nobody', async () => {
    const stage = openStage()
    const id = await stage.enqueue()
    const hostile = {
      toString() {
        throw new Error('no text')
      },
      toJSON() {
        throw new Error('no JSON')
      },
    }
    const worker = stage.worker({
      handlers: [
        work(async (_payload, ctx) => {
          ctx.log(hostile as unknown as string)
          ctx.log('a NUL \u0000 and a lone \ud800')
          ctx.progress(hostile)
        }),
      ],
    })

    await worker.tick()

    const job = await stage.get(id)
    expect(job.state).toBe('succeeded')
    expect(job.logs[1]!.text).toBe('a NUL \ufffd and a lone \ufffd')
    expect(job.progress).toMatchObject({ unserializable: true })
  })

  test('notes survive a store that is away for a while', async () => {
    const stage = openStage()
    const id = await stage.enqueue()
    const end = gate()
    const worker = stage.worker({
      handlers: [
        work(async (_payload, ctx) => {
          ctx.log('kept')
          ctx.progress(1)
          await end.promise
          ctx.progress(2)
        }),
      ],
    })

    const ticking = worker.tick()
    await stage.clock.advance(0)
    stage.fail(['note'])
    await stage.clock.advance(2_000)
    stage.heal()
    end.open()
    await stage.clock.advance(1_000)
    await ticking

    const job = await stage.get(id)
    expect(job.logs.map(({ text }) => text)).toEqual(['kept'])
    expect(job.progress).toBe(2)
  })

  test('an impossible snooze is an error in the handler', async () => {
    const stage = openStage()
    const id = await stage.enqueue()
    const worker = stage.worker({ handlers: [work(async (_payload, ctx) => ctx.snooze('soon' as '1s'))] })

    await worker.tick()

    expect(await stage.get(id)).toMatchObject({ state: 'retrying', error: { code: 'invalid_option' } })
  })
})

describe('complete(tx)', () => {
  test('with the transaction committed the job is settled by it, and by nothing else', async () => {
    const stage = openStage()
    const begin = withTransactions(stage)
    const id = await stage.enqueue()
    const worker = stage.worker({
      handlers: [
        work(async (_payload, ctx) => {
          const tx = begin()
          await ctx.complete(tx, { effect: 1 })
          await tx.commit()
          return 'not this'
        }),
      ],
    })

    await worker.tick()

    expect(await stage.get(id)).toMatchObject({ state: 'succeeded', result: { effect: 1 } })
    expect(stage.heard('job.settled')).toMatchObject([{ id, state: 'succeeded' }])
    expect(stage.heard('lease.lost')).toEqual([])
  })

  test('rolled back and returned from, the attempt failed and says why', async () => {
    const stage = openStage()
    const begin = withTransactions(stage)
    const id = await stage.enqueue()
    const worker = stage.worker({ handlers: [work(async (_payload, ctx) => ctx.complete(begin(), 'lost'))] })

    await worker.tick()

    const job = await stage.get(id)
    expect(job).toMatchObject({ state: 'retrying', result: null })
    expect(job.error!.message).toContain('was not committed')
  })

  test('a handler that throws after its commit has succeeded', async () => {
    const stage = openStage()
    const begin = withTransactions(stage)
    const id = await stage.enqueue()
    const worker = stage.worker({
      handlers: [
        work(async (_payload, ctx) => {
          const tx = begin()
          await ctx.complete(tx)
          await tx.commit()
          throw new Error('after the commit')
        }),
      ],
    })

    await worker.tick()

    expect(await stage.get(id)).toMatchObject({ state: 'succeeded', attempts: [] })
  })

  test('a handler that throws before its commit fails with its own error', async () => {
    const stage = openStage()
    const begin = withTransactions(stage)
    const id = await stage.enqueue()
    const worker = stage.worker({
      handlers: [
        work(async (_payload, ctx) => {
          await ctx.complete(begin())
          throw new Error('before the commit')
        }),
      ],
    })

    await worker.tick()

    expect(await stage.get(id)).toMatchObject({ state: 'retrying', error: { message: 'before the commit' } })
  })

  test('a heartbeat between the commit and the end of the handler takes nothing for lost', async () => {
    const stage = openStage()
    const begin = withTransactions(stage)
    const id = await stage.enqueue()
    const end = gate()
    let wasAborted = true
    const worker = stage.worker({
      handlers: [
        work(async (_payload, ctx) => {
          const tx = begin()
          await ctx.complete(tx)
          await tx.commit()
          await end.promise
          wasAborted = ctx.signal.aborted
        }),
      ],
    })

    const ticking = worker.tick()
    await stage.clock.advance(25_000)
    end.open()
    await ticking

    expect(wasAborted).toBe(false)
    expect(await stage.get(id)).toMatchObject({ state: 'succeeded' })
  })

  test('a store that is away when the handler ends is asked again until it answers', async () => {
    const stage = openStage()
    const begin = withTransactions(stage)
    const id = await stage.enqueue()
    const worker = stage.worker({
      handlers: [
        work(async (_payload, ctx) => {
          const tx = begin()
          await ctx.complete(tx)
          await tx.commit()
          stage.fail(['watch'])
        }),
      ],
    })

    const ticking = worker.tick()
    await stage.clock.advance(5_000)
    const during = stage.heard('job.settled').length
    stage.heal()
    await stage.clock.advance(1_000)
    await ticking

    expect(during).toBe(0)
    expect(stage.heard('job.settled')).toMatchObject([{ id, state: 'succeeded' }])
  })

  test('raises lease_lost when the job belongs to another run', async () => {
    const stage = openStage()
    const begin = withTransactions(stage, 'lost')
    await stage.enqueue()
    let raised: unknown
    const worker = stage.worker({
      handlers: [
        work(async (_payload, ctx) => {
          try {
            await ctx.complete(begin())
          } catch (error) {
            raised = error
            throw error
          }
        }),
      ],
    })

    await worker.tick()

    expect(raised).toMatchObject({ code: 'lease_lost' })
    expect(stage.heard('lease.lost')).toHaveLength(1)
    expect(stage.heard('job.settled')).toEqual([])
  })

  test('without a client it is refused before anything happens', async () => {
    const stage = openStage()
    const id = await stage.enqueue()
    const worker = stage.worker({
      handlers: [work(async (_payload, ctx) => ctx.complete(undefined as unknown as Queryable))],
    })

    await worker.tick()

    expect(await stage.get(id)).toMatchObject({ state: 'retrying', error: { code: 'invalid_option' } })
  })
})

// The memory store has no transactions. This one keeps what is settled in a transaction until its commit.
function withTransactions(stage: Stage, result: 'settled' | 'lost' = 'settled') {
  const { settle } = stage.store
  const pending = new Map<unknown, SettledJob[]>()
  const settleInTx: Store['settle'] = async (jobs, options) => {
    if (options?.tx === undefined) return settle(jobs, options)
    pending.get(options.tx)!.push(...jobs)
    return jobs.map(({ id, fence, queue, settlement }) => ({ id, fence, queue, result, state: settlement.state }))
  }
  ;(stage.store as { settle: Store['settle'] }).settle = settleInTx
  return () => {
    const tx = {
      query: async () => ({ rows: [] }),
      commit: async () => void (await settle(pending.get(tx)!)),
    }
    pending.set(tx, [])
    return tx
  }
}
