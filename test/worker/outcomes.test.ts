import { describe, expect, test } from 'vitest'
import { defineJob } from '../../src/client/define-job.js'
import { DropJob, RetryJob } from '../../src/core/definition.js'
import { openStage, work } from './stage.js'

const FIXED = { backoff: 'fixed', base: '10s', jitter: false } as const

describe('how an attempt ends', () => {
  test('what the handler returns is the result', async () => {
    const stage = openStage()
    const id = await stage.enqueue({ payload: '{"n":2}' })
    const worker = stage.worker({
      handlers: [work(async (payload) => ({ doubled: (payload as { n: number }).n * 2 }))],
    })

    const count = await worker.tick()

    const job = await stage.get(id)
    expect(count).toBe(1)
    expect(job).toMatchObject({ state: 'succeeded', result: { doubled: 4 }, attempt: 1, worker: worker.id })
  })

  test('a handler that is no async function settles like one', async () => {
    const stage = openStage()
    const ids = [await stage.enqueue(), await stage.enqueue()]
    const worker = stage.worker({ handlers: [work(() => 'plain')] })

    await worker.tick()

    for (const id of ids) expect(await stage.get(id)).toMatchObject({ state: 'succeeded', result: 'plain' })
  })

  test('a result that cannot be stored becomes a marker and the job succeeds', async () => {
    const stage = openStage()
    const id = await stage.enqueue()
    const circular: Record<string, unknown> = {}
    circular.self = circular
    const worker = stage.worker({ handlers: [work(async () => circular)] })

    await worker.tick()

    expect(await stage.get(id)).toMatchObject({ state: 'succeeded', result: { unserializable: true } })
  })

  test('a thrown error is kept, and the job is ready again exactly after its backoff', async () => {
    const stage = openStage()
    const id = await stage.enqueue()
    const handler = defineJob('work', { retry: FIXED }).handle(async (_payload, ctx) => {
      if (ctx.attempt === 1) throw new TypeError('no luck')
      return 'second'
    })
    const worker = stage.worker({ handlers: [handler] })
    const upkeep = stage.upkeep()

    await worker.tick()
    const failed = await stage.get(id)
    await stage.clock.advance(9_999)
    await upkeep.tick()
    const early = await worker.tick()
    await stage.clock.advance(1)
    await upkeep.tick()
    const due = await worker.tick()

    expect(failed).toMatchObject({ state: 'retrying', error: { name: 'TypeError', message: 'no luck' } })
    expect(failed.runAt!.getTime() - stage.clock.now()).toBe(0)
    expect([early, due]).toEqual([0, 1])
    const job = await stage.get(id)
    expect(job).toMatchObject({ state: 'succeeded', attempt: 2, result: 'second' })
    expect(job.attempts).toHaveLength(1)
  })

  test('an exponential backoff doubles from attempt to attempt', async () => {
    const stage = openStage()
    const id = await stage.enqueue({ limits: { maxAttempts: 4 } })
    const handler = defineJob('work', { retry: { base: '1s', jitter: false } }).handle(async () => {
      throw new Error('again')
    })
    const worker = stage.worker({ handlers: [handler] })
    const upkeep = stage.upkeep()
    const waits: number[] = []

    for (let round = 0; round < 3; round++) {
      await worker.tick()
      const waitMs = (await stage.get(id)).runAt!.getTime() - stage.clock.now()
      waits.push(waitMs)
      await stage.clock.advance(waitMs)
      await upkeep.tick()
    }
    await worker.tick()

    expect(waits).toEqual([1_000, 2_000, 4_000])
    expect(await stage.get(id)).toMatchObject({ state: 'dead', reason: 'attempts', attempt: 4 })
  })

  test('DropJob goes to the dead-letter queue immediately', async () => {
    const stage = openStage()
    const id = await stage.enqueue()
    const worker = stage.worker({
      handlers: [
        work(() => {
          throw new DropJob('the account was closed')
        }),
      ],
    })

    await worker.tick()

    const job = await stage.get(id)
    expect(job).toMatchObject({ state: 'dead', reason: 'dropped', error: { message: 'the account was closed' } })
  })

  test('RetryJob chooses the next time and uses an attempt', async () => {
    const stage = openStage()
    const id = await stage.enqueue()
    const worker = stage.worker({
      handlers: [
        work(async () => {
          throw new RetryJob('rate limited', { delay: '90s' })
        }),
      ],
    })

    await worker.tick()

    const job = await stage.get(id)
    expect(job).toMatchObject({ state: 'retrying', attempt: 1, error: { name: 'RetryJob' } })
    expect(job.runAt!.getTime()).toBe(stage.clock.now() + 90_000)
  })

  test('control errors of another copy of the package count as well', async () => {
    const stage = openStage()
    const id = await stage.enqueue()
    class DropJobOfAnotherCopy extends Error {
      override readonly name = 'DropJob'
    }
    const worker = stage.worker({
      handlers: [
        work(async () => {
          throw new DropJobOfAnotherCopy('over')
        }),
      ],
    })

    await worker.tick()

    expect(await stage.get(id)).toMatchObject({ state: 'dead', reason: 'dropped' })
  })

  test('snooze runs the job again later without using an attempt or leaving a failure', async () => {
    const stage = openStage()
    const id = await stage.enqueue()
    const worker = stage.worker({ handlers: [work(async (_payload, ctx) => ctx.snooze('5m'))] })

    await worker.tick()

    const job = await stage.get(id)
    expect(job).toMatchObject({ state: 'scheduled', attempt: 0, attempts: [], error: null })
    expect(job.runAt!.getTime()).toBe(stage.clock.now() + 300_000)
  })

  test('an error the definition calls hopeless is not retried', async () => {
    const stage = openStage()
    const id = await stage.enqueue()
    const handler = defineJob('work', { retryable: (error) => !(error instanceof SyntaxError) }).handle(async () => {
      throw new SyntaxError('bad input')
    })

    await stage.worker({ handlers: [handler] }).tick()

    expect(await stage.get(id)).toMatchObject({ state: 'dead', reason: 'dropped' })
  })

  test('a classifier that throws has not said no', async () => {
    const stage = openStage()
    const id = await stage.enqueue()
    const retryable = () => {
      throw new Error('broken classifier')
    }
    const handler = defineJob('work', { retryable }).handle(async () => {
      throw new Error('real')
    })

    await stage.worker({ handlers: [handler] }).tick()

    expect(await stage.get(id)).toMatchObject({ state: 'retrying', error: { message: 'real' } })
  })

  test.each([
    ['undefined', () => undefined],
    ['null', () => null],
    ['a symbol', () => Symbol('x')],
    ['an object without a prototype', () => Object.create(null)],
    ['a proxy that throws at every touch', () => hostileProxy()],
    ['an error whose fields throw', () => errorWithHostileFields()],
  ])('throwing %s fails the attempt like any error', async (_name, make) => {
    const stage = openStage()
    const id = await stage.enqueue()
    const worker = stage.worker({
      handlers: [
        work(async () => {
          throw make()
        }),
      ],
    })

    await worker.tick()

    expect(await stage.get(id)).toMatchObject({ state: 'retrying', attempt: 1 })
  })

  test('a thenable that lies about itself fails its own job only', async () => {
    const stage = openStage()
    const bad = await stage.enqueue({ payload: '{"bad":true}' })
    const good = await stage.enqueue()
    const worker = stage.worker({
      handlers: [
        work((payload) => {
          if (!(payload as { bad?: boolean }).bad) return 'fine'
          return {
            // biome-ignore lint/suspicious/noThenProperty: a hostile thenable is what is tested
            get then(): never {
              throw new Error('no then for you')
            },
          }
        }),
      ],
    })

    await worker.tick()

    expect(await stage.get(bad)).toMatchObject({ state: 'retrying', error: { message: 'no then for you' } })
    expect(await stage.get(good)).toMatchObject({ state: 'succeeded', result: 'fine' })
  })

  test('a job that grew too old is dead before its handler sees it', async () => {
    const stage = openStage()
    const id = await stage.enqueue({ limits: { maxAgeMs: 1_000 } })
    let calls = 0
    const worker = stage.worker({ handlers: [work(() => void calls++)] })

    await stage.clock.advance(1_001)
    await worker.tick()

    expect(calls).toBe(0)
    expect(await stage.get(id)).toMatchObject({ state: 'dead', reason: 'expired', attempt: 0 })
  })

  test('limits come from the job, then the definition, then the queue', async () => {
    const stage = openStage()
    await stage.store.setQueue('default', { limits: { maxAttempts: 7, timeoutMs: 5_000 } }, 'test')
    await stage.enqueue({ limits: { maxAttempts: 3 } })
    await stage.enqueue()
    const seen: number[] = []
    const handler = defineJob('work', { maxAttempts: 5 }).handle(
      async (_payload, ctx) => void seen.push(ctx.maxAttempts),
    )

    await stage.worker({ handlers: [handler] }).tick()

    expect(seen).toEqual([3, 5])
  })
})

describe('what others are notified of', () => {
  test('a successful job is claimed, started, ended and settled, in this order', async () => {
    const stage = openStage()
    await stage.enqueue()

    await stage.worker({ handlers: [work(async () => 'ok')] }).tick()

    expect(stage.events.map(({ name }) => name)).toEqual(['job.claimed', 'job.started', 'job.ended', 'job.settled'])
    expect(stage.heard('job.ended')[0]).toMatchObject({ outcome: 'succeeded', error: null, ranMs: 0 })
  })

  test('a retry says how long it waits', async () => {
    const stage = openStage()
    await stage.enqueue()
    const handler = defineJob('work', { retry: FIXED }).handle(async () => {
      throw new Error('no')
    })

    await stage.worker({ handlers: [handler] }).tick()

    expect(stage.heard('job.settled')[0]).toMatchObject({ state: 'retrying', delayMs: 10_000, reason: null })
    expect(stage.heard('job.ended')[0]).toMatchObject({ outcome: 'failed', error: 'no' })
  })
})

function hostileProxy(): unknown {
  const refuse = () => {
    throw new Error('do not touch')
  }
  return new Proxy({}, { get: refuse, getPrototypeOf: refuse, has: refuse, ownKeys: refuse })
}

function errorWithHostileFields(): Error {
  const error = new Error('x')
  const refuse = {
    get(): never {
      throw new Error('do not read')
    },
  }
  return Object.defineProperties(error, { name: refuse, message: refuse, stack: refuse, code: refuse })
}
