import { readFileSync } from 'node:fs'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { redactUrl } from '../../src/core/url.js'
import { connect, defineJob, type HoldfastEvent, openHoldfast, VERSION } from '../../src/index.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import { systemPorts } from '../../src/system-ports.js'
import { manualClock } from '../../src/testing/manual-clock.js'
import { failure, testPorts } from './support.js'

afterEach(() => {
  vi.unstubAllEnvs()
})

describe('connect', () => {
  test('opens the memory store, which takes a job and gives it back', async () => {
    const holdfast = await connect('memory:')

    const { id } = await holdfast.enqueue('a', { n: 1 })

    expect(await holdfast.get(id)).toMatchObject({ payload: { n: 1 }, state: 'ready' })
    await holdfast.close()
  })

  test('takes HOLDFAST_URL before DATABASE_URL, and skips what is empty', async () => {
    vi.stubEnv('HOLDFAST_URL', 'memory:')
    vi.stubEnv('DATABASE_URL', 'mysql://localhost/x')
    const first = await connect()
    vi.stubEnv('HOLDFAST_URL', '')

    const error = await failure(connect())

    expect(error.code).toBe('invalid_url')
    expect(error.message).toContain('the URL in DATABASE_URL ("mysql://localhost/x") cannot be used')
    await first.close()
  })

  const cases: [name: string, url: unknown, code: string, message: RegExp][] = [
    ['a URL of another database', 'mysql://localhost/x', 'invalid_url', /must begin with postgres:\/\/, redis:\/\/, /],
    ['no URL at all', 'localhost', 'invalid_url', /must begin with/],
    ['an empty one', '', 'invalid_url', /must begin with/],
    ['something that is no text', 7, 'invalid_url', /must be text, got 7/],
    ['a memory store with a name', 'memory:x', 'invalid_url', /just 'memory:'/],
    ['a PostgreSQL URL without slashes', 'postgres:x', 'invalid_url', /must look like postgres:\/\/user/],
    ['a PostgreSQL URL with a bad port', 'postgres://h:99999/x', 'invalid_url', /must look like/],
    ['an embedded store without a folder', 'embedded:', 'invalid_url', /must name a folder/],
    ['a Redis URL without slashes', 'redis:x', 'invalid_url', /must look like redis:\/\/user/],
    ['a Redis Cluster with a database', 'redis+cluster://:s3cret@localhost/3', 'invalid_url', /no databases/],
  ]

  for (const [name, url, code, message] of cases) {
    test(`refuses ${name}`, async () => {
      const error = await failure(connect(url as string))

      expect(error.code).toBe(code)
      expect(error.message).toMatch(message)
      expect(error.message).not.toContain('s3cret')
    })
  }

  const optionCases: [name: string, options: unknown, message: RegExp][] = [
    ['an unknown option', { pools: 5 }, /connect has no option "pools"/],
    ['options that are no object', 'x', /connect must be an object/],
    ['a payload limit of nothing', { payloadBytesMax: 0 }, /payloadBytesMax must be a whole number from 1/],
    ['an endless payload limit', { payloadBytesMax: Number.POSITIVE_INFINITY }, /payloadBytesMax must be/],
    ['an enqueue timeout in words', { enqueueTimeout: 'long' }, /enqueueTimeout must be a duration/],
    ['a buffer of nothing', { enqueueBufferMax: 0 }, /enqueueBufferMax must be/],
    ['a negative retention', { retention: -1 }, /retention must be between/],
    ['upkeep in words', { upkeep: 'yes' }, /upkeep must be true or false, got "yes"/],
    ['a name with a space', { name: 'my worker' }, /name must be/],
    ['ports that are none', { ports: { clock: null } }, /ports must have a clock, timers and random/],
    ['a schema that is no text', { schema: 7 }, /schema must be/],
  ]

  for (const [name, options, message] of optionCases) {
    test(`refuses ${name}`, async () => {
      const error = await failure(connect('memory:', options as never))

      expect(['invalid_option', 'invalid_name']).toContain(error.code)
      expect(error.message).toMatch(message)
    })
  }

  test('raises what the store says when the server cannot be reached, without the password', async () => {
    const error = await failure(connect('postgres://ann:s3cret@127.0.0.1:1/x'))

    expect(error.code).toBe('store_unavailable')
    expect(`${error.message} ${error.stack}`).not.toContain('s3cret')
  })
})

describe('a connected queue', () => {
  const add = defineJob<{ a: number; b: number }>('add')

  async function openManual() {
    const clock = manualClock()
    return { clock, holdfast: await openHoldfast(memoryStore({ clock }), { ports: testPorts(clock) }) }
  }

  test('runs a job from enqueue to result', async () => {
    await using(await connect('memory:'), async (holdfast) => {
      const worker = holdfast.worker({ handlers: [add.handle(({ a, b }) => a + b)] })
      await worker.start()

      const { id } = await holdfast.enqueue(add, { a: 1, b: 2 })

      expect(await holdfast.wait(id)).toBe(3)
    })
  })

  test('promotes a job with a delay in time, because upkeep is notified', async () => {
    const { holdfast, clock } = await openManual()
    // Past the first look, so that without a notification upkeep would come back in more than a second.
    await clock.advance(100)

    const { id, state } = await holdfast.enqueue(add, { a: 1, b: 2 }, { delay: 50 })
    await clock.advance(50)

    expect(state).toBe('scheduled')
    expect((await holdfast.get(id))?.state).toBe('ready')
    await holdfast.close()
  })

  test('retries in time, because upkeep is notified', async () => {
    const { holdfast, clock } = await openManual()
    const handler = add.handle((_, { attempt }) => {
      if (attempt === 1) throw new Error('once')
      return attempt
    })
    await holdfast.worker({ handlers: [handler] }).start()
    await clock.advance(100)

    const retry = { backoff: 'fixed', base: '50ms', jitter: false } as const
    const { id } = await holdfast.enqueue(add, { a: 1, b: 2 }, { retry })
    const result = holdfast.wait(id)
    await clock.advance(60)

    expect(await result).toBe(2)
    await holdfast.close()
  })

  test('fires a schedule in time, because upkeep is notified', async () => {
    const { holdfast, clock } = await openManual()
    await clock.advance(100)

    await holdfast.schedule('every-second', { cron: '* * * * * *', job: add, payload: { a: 1, b: 2 } })
    await clock.advance(950)

    expect((await holdfast.list({ type: 'add' })).jobs).toHaveLength(1)
    await holdfast.close()
  })

  test('names its workers by its option', async () => {
    await using(await connect('memory:', { name: 'mailer' }), async (holdfast) => {
      const own = holdfast.worker({ handlers: [add.handle(() => 1)], name: 'other' })
      const usual = holdfast.worker({ handlers: [add.handle(() => 1)] })

      expect(usual.id).toMatch(/^mailer:/)
      expect(own.id).toMatch(/^other:/)
    })
  })

  test('closing drains workers first: handlers that run may still enqueue', async () => {
    const clock = manualClock()
    const store = memoryStore({ clock })
    const holdfast = await openHoldfast({ ...store, close: async () => {} }, { ports: testPorts(clock) })
    const events: HoldfastEvent['name'][] = []
    holdfast.on(({ name }) => events.push(name))
    let started = () => {}
    const running = new Promise<void>((resolve) => {
      started = resolve
    })
    let goOn = () => {}
    const gate = new Promise<void>((resolve) => {
      goOn = resolve
    })
    const handler = add.handle(async () => {
      started()
      await gate
      return (await holdfast.enqueue('late', null)).id
    })
    await holdfast.worker({ handlers: [handler] }).start()
    const { id } = await holdfast.enqueue(add, { a: 1, b: 2 })
    await running

    const closed = holdfast.close()
    goOn()
    await closed

    const job = await store.get(id)
    expect(job?.state).toBe('succeeded')
    expect(await store.get(job?.result as string)).toMatchObject({ type: 'late', state: 'ready' })
    expect(events).toContain('worker.stopped')
    expect(holdfast.close()).toBe(closed)
  })

  test('refuses to work once it is closed', async () => {
    const holdfast = await connect('memory:')
    await holdfast.close()

    expect(() => holdfast.worker({ handlers: [add.handle(() => 1)] })).toThrow('this client is closed')
    expect((await failure(holdfast.get('0190a3c2-7b1e-7c2d-8e4f-1a2b3c4d5e6f'))).code).toBe('closed')
  })

  test('is closed by the end of its scope', async () => {
    const holdfast = await connect('memory:')

    await holdfast[Symbol.asyncDispose]()

    expect((await failure(holdfast.stats())).code).toBe('closed')
  })

  test('without upkeep nothing is promoted', async () => {
    const clock = manualClock()
    const holdfast = await openHoldfast(memoryStore({ clock }), { ports: testPorts(clock), upkeep: false })
    const { id } = await holdfast.enqueue('a', null, { delay: '1s' })

    await clock.advance(60_000)

    expect((await holdfast.get(id))?.state).toBe('scheduled')
    await holdfast.close()
  })
})

describe('a URL in a message', () => {
  test('keeps its user and host and loses its password', () => {
    expect(redactUrl('postgres://ann:s3cret@db.example:5432/jobs')).toBe('postgres://ann:***@db.example:5432/jobs')
  })

  test('loses a password with an unescaped @ or slash in it', () => {
    expect(redactUrl('postgres://ann:s3@c/ret@db/jobs')).toBe('postgres://ann:***@db/jobs')
  })

  test('loses a password among the parameters', () => {
    expect(redactUrl('postgres://db/jobs?password=s3cret&sslmode=require')).toBe(
      'postgres://db/jobs?password=***&sslmode=require',
    )
  })

  test('stays as it is without one, and is cut when it is long', () => {
    expect(redactUrl('embedded:.holdfast')).toBe('embedded:.holdfast')
    expect(redactUrl('x'.repeat(500))).toHaveLength(201)
  })
})

describe('the system ports', () => {
  test('fire a timer once, and not when it was cancelled', async () => {
    const fired: string[] = []

    systemPorts.timers.after(1, () => fired.push('cancelled')).cancel()
    await new Promise<void>((resolve) => systemPorts.timers.after(5, resolve, { keepAlive: true }))

    expect(fired).toEqual([])
  })

  test('hold a timer of years without firing it', async () => {
    const fired: string[] = []
    const timer = systemPorts.timers.after(50 * 365 * 86_400_000, () => fired.push('early'))

    await new Promise<void>((resolve) => systemPorts.timers.after(20, resolve, { keepAlive: true }))
    timer.cancel()

    expect(fired).toEqual([])
  })
})

test('the version is the one of the package', () => {
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))

  expect(VERSION).toBe(version)
})

async function using<T extends AsyncDisposable>(opened: T, act: (opened: T) => Promise<void>): Promise<void> {
  try {
    await act(opened)
  } finally {
    await opened[Symbol.asyncDispose]()
  }
}
