// The events of jobs that run elsewhere, as an async iterator: what happened to each, read from what the store keeps.

import { describe, expect, test } from 'vitest'
import {
  connect,
  DropJob,
  defineJob,
  type EventsDropped,
  type JobEvent,
  type JobEventsOptions,
} from '../../src/index.js'
import { failure, onStores } from './stores.js'

const soon = { backoff: 'fixed', base: 1, jitter: false } as const
const noId = '0198f0c2-7c1e-7000-8000-000000000001'

type Event = JobEvent | EventsDropped

function names(events: readonly Event[]): string[] {
  return events.map(({ name }) => name.replace('job.', ''))
}

async function all(events: AsyncIterable<Event>): Promise<Event[]> {
  const found: Event[] = []
  for await (const event of events) found.push(event)
  return found
}

/** A promise that somebody else fulfils. */
function gate(): { readonly opened: Promise<void>; open(): void } {
  let open = () => {}
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return { opened, open: () => open() }
}

onStores(['memory', 'PostgreSQL', 'Redis'], (queue) => {
  test('a job that runs elsewhere is followed from its enqueue to its end, each attempt with its worker and its error', async () => {
    const { holdfast, working } = queue()
    const reader = await queue().another()
    const page = defineJob<null>('page', { retry: soon })
    const seen = gate()
    const handler = page.handle(async (_payload, ctx) => {
      if (ctx.attempt === 1) throw new Error('the page is gone')
      ctx.progress({ page: 2 })
      await seen.opened
    })
    const { id } = await holdfast.enqueue(page, null)
    const events: Event[] = []

    await working([handler], async () => {
      for await (const event of reader.jobEvents({ job: id })) {
        events.push(event)
        if (event.name === 'job.progress') seen.open()
      }
    })

    expect(names(events)).toEqual(['enqueued', 'started', 'retrying', 'started', 'progress', 'succeeded'])
    expect(events.every((event) => 'id' in event && event.id === id && event.type === 'page')).toBe(true)
    expect(events[1]).toMatchObject({ attempt: 1, worker: expect.any(String), at: expect.any(Date) })
    expect(events[2]).toMatchObject({ attempt: 1, error: { message: 'the page is gone' }, at: expect.any(Date) })
    expect(events[3]).toMatchObject({ attempt: 2, worker: expect.any(String) })
    expect(events[4]).toMatchObject({ attempt: 2, progress: { page: 2 } })
  })

  test('a reader that comes late gets what it missed: failures, a death, its requeue, and how it ended', async () => {
    const { holdfast, working } = queue()
    const reader = await queue().another()
    const late = defineJob<null>('late', { retry: soon, maxAttempts: 2 })
    let runs = 0
    const handler = late.handle(() => {
      if (++runs <= 2) throw new Error(`run ${runs}`)
    })

    const id = await working([handler], async () => {
      const handle = await holdfast.enqueue(late, null)
      await failure(handle.wait())
      await holdfast.requeue(handle.id, { by: 'ann' })
      await handle.wait()
      return handle.id
    })
    const events = await all(reader.jobEvents({ job: id }))

    expect(names(events)).toEqual([
      'enqueued',
      'started',
      'retrying',
      'started',
      'dead',
      'requeued',
      'started',
      'succeeded',
    ])
    expect(events[4]).toMatchObject({ reason: null, error: { message: 'run 2' } })
    expect(events[5]).toMatchObject({ by: 'ann', at: expect.any(Date) })
  })

  test('a job that leaves its slot is told to wait, and a deleted one is the end', async () => {
    const { holdfast, working } = queue()
    const reader = await queue().another()
    const nap = defineJob<null>('nap')
    const begun = gate()
    const handler = nap.handle(async (_payload, ctx) => {
      await begun.opened
      ctx.snooze('1h')
    })
    const { id } = await holdfast.enqueue(nap, null)
    const events: Event[] = []

    await working([handler], async () => {
      for await (const event of reader.jobEvents({ job: [id] })) {
        events.push(event)
        if (event.name === 'job.started') begun.open()
        if (event.name === 'job.waiting') await holdfast.delete(id)
      }
    })

    expect(names(events)).toEqual(['enqueued', 'started', 'waiting', 'deleted'])
    expect(events[2]).toMatchObject({ state: 'scheduled', runAt: expect.any(Date) })
  })

  test('a cancelled job and a dead one end the iteration of both, and names choose', async () => {
    const { holdfast, working } = queue()
    const reader = await queue().another()
    const drop = defineJob<null>('drop').handle(() => {
      throw new DropJob('not wanted')
    })
    const cancelled = await holdfast.enqueue('nobody', null, { delay: '1h' })
    await holdfast.cancel(cancelled.id)

    const events = await working([drop], async () => {
      const { id } = await holdfast.enqueue('drop', null)
      return all(reader.jobEvents({ job: [cancelled.id, id], names: ['job.cancelled', 'job.dead'] }))
    })

    expect(names(events).sort()).toEqual(['cancelled', 'dead'])
    expect(events.find(({ name }) => name === 'job.dead')).toMatchObject({
      type: 'drop',
      reason: 'dropped',
      error: { message: 'not wanted' },
    })
  })

  test('the jobs of a queue are followed from now on, and those of others are not', async () => {
    const { holdfast } = queue()
    const reader = await queue().another()
    const mail = defineJob<null>('mail', { queue: 'mail_out' })
    const other = defineJob<null>('other_mail', { queue: 'elsewhere' })
    await holdfast.enqueue(mail, null)
    const worker = holdfast.worker({
      queues: ['mail_out', 'elsewhere'],
      handlers: [mail.handle(() => {}), other.handle(() => {})],
    })
    const leave = new AbortController()
    const events: Event[] = []
    const iterator = reader.jobEvents({ queues: ['mail_*'], signal: leave.signal })[Symbol.asyncIterator]()
    const first = iterator.next()
    // Its first event says that it has begun to look.
    let hasBegun = false
    void first.then(() => {
      hasBegun = true
    })
    while (!hasBegun) {
      await holdfast.enqueue('probe', null, { queue: 'mail_probe' })
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
    const { id } = await holdfast.enqueue(mail, null)
    await holdfast.enqueue(other, null)
    await worker.start()

    for (let next = await first; next.done !== true; next = await iterator.next()) {
      if ('type' in next.value && next.value.type === 'probe') continue
      events.push(next.value)
      const ends = events.filter(({ name }) => name === 'job.succeeded')
      if (ends.length === 2) leave.abort()
    }
    await worker.stop()

    const own = events.filter((event) => 'id' in event && event.id === id)
    expect(names(own)).toEqual(['enqueued', 'started', 'succeeded'])
    // Of the one that stood there before, what happened since.
    expect(names(events.filter((event) => !own.includes(event)))).toEqual(['started', 'succeeded'])
    expect(events.every((event) => 'queue' in event && event.queue === 'mail_out')).toBe(true)
  })

  test('one that does not exist is an error', async () => {
    const reader = await queue().another()

    expect(await failure(all(reader.jobEvents({ job: noId })))).toMatchObject({ code: 'job_not_found' })
  })
})

onStores(['PostgreSQL'], (queue) => {
  test('a reader whose connections were cut goes on where it was', async () => {
    const { holdfast, schema } = queue()
    const reader = await queue().another()
    const sql = await queue().sql()
    const { id } = await holdfast.enqueue('unhurried', null, { delay: '1h' })
    const events: Event[] = []

    for await (const event of reader.jobEvents({ job: id })) {
      events.push(event)
      if (event.name !== 'job.enqueued') continue
      const { rowCount } = await sql.query(
        'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE $1 AND pid <> pg_backend_pid()',
        [`%${schema}%`],
      )
      expect(rowCount).toBeGreaterThan(0)
      void holdfast.cancel(id).catch(() => holdfast.cancel(id))
    }

    expect(names(events)).toEqual(['enqueued', 'cancelled'])
  })
})

describe('jobEvents', () => {
  test('says from when to when events may be missing when more jobs have ended than a look reads', async () => {
    const holdfast = await connect('memory:')
    const many = defineJob<null>('many')
    const worker = holdfast.worker({ handlers: [many.handle(() => {})], concurrency: 100 })
    const leave = new AbortController()
    const iterator = holdfast.jobEvents({ types: ['many', 'first'], signal: leave.signal })[Symbol.asyncIterator]()
    const first = iterator.next()
    await new Promise((resolve) => setTimeout(resolve, 50))
    await holdfast.enqueue('first', null)
    await first

    const handles = await holdfast.enqueueMany(
      many,
      Array.from({ length: 2_500 }, () => null),
    )
    await worker.start()
    await Promise.all(handles.map((handle) => handle.wait()))
    let dropped: EventsDropped | null = null
    while (dropped === null) {
      const { value } = await iterator.next()
      if (value?.name === 'events.dropped') dropped = value
    }
    leave.abort()
    await holdfast.close()

    expect(dropped.until.getTime()).toBeGreaterThan(dropped.since.getTime())
  })

  test('a reader is told that its connection was closed', async () => {
    const holdfast = await connect('memory:')
    const { id } = await holdfast.enqueue('nobody', null)
    const iterator = holdfast.jobEvents({ job: id })[Symbol.asyncIterator]()

    await iterator.next()
    const next = failure(iterator.next())
    await holdfast.close()

    expect(await next).toMatchObject({ code: 'closed' })
  })

  test.each<[object, RegExp]>([
    [{}, /either job.*or queues and types/],
    [{ job: noId, queues: ['mail'] }, /either job/],
    [{ job: 'seven' }, /id/],
    [{ job: [] }, /1 to 200 ids/],
    [{ job: Array.from({ length: 201 }, () => noId) }, /1 to 200 ids/],
    [{ queues: [] }, /queues/],
    [{ types: 'mail' }, /types/],
    [{ job: noId, names: ['job.died'] }, /names must be one of 'job.enqueued'/],
    [{ job: noId, names: [] }, /names/],
    [{ job: noId, signal: 5 }, /signal/],
    [{ job: noId, since: 'yesterday' }, /since/],
    [{ types: ['mail'], since: new Date() }, /since goes with job/],
    [{ job: noId, filter: {} }, /filter/],
  ])('%j is refused when it is called', async (options, text) => {
    const holdfast = await connect('memory:')

    expect(() => holdfast.jobEvents(options as JobEventsOptions)).toThrow(text)
    await holdfast.close()
  })
})
