// A key for some queues cannot find out what is in the others: not by cursors, counts, parents, workers, names or events.

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Store } from '../../src/core/store.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { systemPorts } from '../../src/system-ports.js'
import { dropSchema, testServerUrl } from '../support/postgres.js'
import { TestServer, TOKEN } from './support.js'

const schema = `tenants_${process.pid}`
const ABSENT = '00000000-0000-7000-8000-000000000000'

const stores: readonly (readonly [string, () => Promise<Store>])[] = [
  ['memory', async () => memoryStore({ clock: systemPorts.clock })],
  ['PostgreSQL', () => postgresStore(testServerUrl(), { schema })],
]

describe.each(stores)('a key for some queues, on %s', (kind, open) => {
  let server: TestServer
  let key: string
  let mine: string
  let theirs: string

  beforeAll(async () => {
    server = await TestServer.open({}, await open())
    key = await server.key(['read', 'read:payload', 'enqueue', 'operate'], ['mine'])
    mine = (await server.holdfast.enqueue('mine', { n: 1 }, { queue: 'mine' })).id
    theirs = (await server.holdfast.enqueue('their_type', { n: 2 }, { queue: 'theirs' })).id
    await server.holdfast.schedule('theirs', { cron: '0 0 * * *', job: 'x', queue: 'theirs' })
    const worker = {
      ...{ id: 'w', host: 'h', pid: 1, concurrency: 4, running: 0, draining: false, version: '1', jobs: [] },
      ...{ queues: ['mine', 'theirs'], types: ['mine', 'their_type'] },
    }
    await server.store.beat(worker as never)
  })

  afterAll(async () => {
    await server.close()
    if (kind === 'PostgreSQL') await dropSchema(testServerUrl(), schema)
  })

  const get = (path: string) => server.as(key, 'GET', path)
  const post = (path: string, body: unknown) => server.as(key, 'POST', path, { body })

  test('cannot enqueue after a job of another queue', async () => {
    for (const path of ['/v1/jobs', '/v1/jobs/batch', `/v1/jobs/${mine}/clone`]) {
      const asking = (after: string) => {
        const job = { queue: 'mine', after: [mine, after] }
        if (path.endsWith('clone')) return post(path, job)
        return post(path, path.endsWith('batch') ? { jobs: [{ type: 'x', ...job }] } : { type: 'x', ...job })
      }
      const [foreign, missing] = [await asking(theirs), await asking(ABSENT)]

      const said = ({ json: { requestId: _, ...others } }: typeof foreign) => JSON.stringify(others)
      expect([foreign.status, foreign.json.code]).toEqual([422, 'unknown_parent'])
      expect(said(foreign).replaceAll(theirs, ABSENT)).toBe(said(missing))
    }
    expect((await post('/v1/jobs', { type: 'x', queue: 'mine', after: mine })).status).toBe(201)
  })

  test('does not see parents in other queues', async () => {
    const { id } = await server.holdfast.enqueue('child', null, { queue: 'mine', after: [theirs] })

    const { text, json } = await get(`/v1/jobs/${id}/explain`)

    expect(text).not.toContain('their_type')
    expect(json.reasons[0]).toMatchObject({ code: 'waits_for_parent', facts: { parents: [] } })
    expect((await server.admin('GET', `/v1/jobs/${id}/explain`)).text).toContain('their_type')
  })

  test('sees of a worker only what concerns its queues', async () => {
    const { workers } = (await get('/v1/workers')).json

    expect(workers[0]).toMatchObject({ id: 'w', queues: ['mine'], types: null })
  })

  test('gets the same answer for a schedule of another queue and for none', async () => {
    const put = (name: string) =>
      server.as(key, 'PUT', `/v1/schedules/${name}`, { body: { cron: '0 0 * * *', type: 'x', queue: 'mine' } })
    const [foreign, missing] = [await put('theirs'), await put('absent')]

    const said = ({ json: { requestId: _, ...others } }: typeof foreign) => JSON.stringify(others)
    expect([foreign.status, foreign.json.code]).toEqual([403, 'forbidden'])
    expect(said(foreign).replaceAll('theirs', 'absent')).toBe(said(missing))
    expect((await put('mine:nightly')).status).toBe(200)
    expect((await put('mine:nightly')).status).toBe(200)
  })

  test('gets events of its own queues only', async () => {
    await server.holdfast.pause('idle')
    const idle = await server.key(['read'], ['idle'])
    const [own, all] = [await Events.open(server, idle), await Events.open(server, TOKEN)]
    await Promise.all([own.next('"idle"'), all.next('"theirs"')])

    await server.holdfast.enqueue('x', null, { queue: 'theirs' })
    await all.next('"theirs"')
    await server.holdfast.enqueue('x', null, { queue: 'idle' })
    const next = await own.next('"ready":1')

    own.stop()
    all.stop()
    expect(next.match(/event: overview/g)).toHaveLength(1)
  }, 30_000)
})

/** A client that follows the events. */
class Events {
  readonly #reader: ReadableStreamDefaultReader<string>
  readonly #stop: AbortController

  private constructor(reader: ReadableStreamDefaultReader<string>, stop: AbortController) {
    this.#reader = reader
    this.#stop = stop
  }

  static async open(server: TestServer, token: string): Promise<Events> {
    const stop = new AbortController()
    const headers = { authorization: `Bearer ${token}` }
    const { body } = await fetch(`${server.listening.url}/v1/events`, { headers, signal: stop.signal })
    return new Events(body!.pipeThrough(new TextDecoderStream()).getReader(), stop)
  }

  /** What comes until `text` did. */
  async next(text: string): Promise<string> {
    let seen = ''
    while (!seen.includes(text)) {
      const { value, done } = await this.#reader.read()
      if (done) throw new Error(`the events ended before ${text}`)
      seen += value
    }
    return seen
  }

  stop(): void {
    this.#stop.abort()
  }
}

describe('a page that ends among jobs of others', () => {
  let server: TestServer
  let theirs: readonly string[]

  beforeAll(async () => {
    server = await TestServer.open({}, await postgresStore(testServerUrl(), { schema: `${schema}_pages` }))
    await server.holdfast.enqueue('x', null, { queue: 'mine' })
    const jobs = Array.from({ length: 2_600 }, () => ['x', null, { queue: 'theirs' }] as const)
    theirs = [...(await server.holdfast.enqueueMany(jobs)), ...(await server.holdfast.enqueueMany(jobs))].map(
      ({ id }) => id,
    )
  }, 60_000)

  afterAll(async () => {
    await server.close()
    await dropSchema(testServerUrl(), `${schema}_pages`)
  })

  test('has a cursor that reveals nothing about them, and no count of them', async () => {
    const key = await server.key(['read'], ['mine'])

    const first = (await server.as(key, 'GET', '/v1/jobs')).json
    const second = (await server.as(key, 'GET', `/v1/jobs?cursor=${first.cursor}`)).json

    expect(first).toMatchObject({ jobs: [], searched: null, searchedTo: null })
    expect(typeof first.cursor).toBe('string')
    const plain = Buffer.from(first.cursor, 'base64url').toString('hex')
    expect(theirs.some((id) => first.cursor.includes(id) || plain.includes(id.replaceAll('-', '')))).toBe(false)
    expect(second.jobs).toHaveLength(1)
    expect(second.cursor).toBeNull()
  })

  test('has a cursor that another server on the store understands, and another key does not', async () => {
    const key = await server.key(['read'], ['mine'])
    const other = await server.key(['read', 'enqueue'], ['mine'])
    const store = await postgresStore(testServerUrl(), { schema: `${schema}_pages` })
    const second = await TestServer.open({}, store)

    const { cursor } = (await server.as(key, 'GET', '/v1/jobs')).json
    const elsewhere = await second.as(key, 'GET', `/v1/jobs?cursor=${cursor}`)
    const stolen = await server.as(other, 'GET', `/v1/jobs?cursor=${cursor}`)
    const made = await server.as(key, 'GET', `/v1/jobs?cursor=${theirs[0]}`)
    await second.close()

    expect([elsewhere.status, elsewhere.json.jobs.length]).toEqual([200, 1])
    expect([stolen.status, made.status]).toEqual([400, 400])
  })
})

test('a job of others and one that does not exist take the same statements', async () => {
  const store = memoryStore({ clock: systemPorts.clock })
  const calls: string[] = []
  const counted = new Proxy(store, {
    get(target, name: keyof Store) {
      const value = target[name]
      if (typeof value !== 'function') return value
      return (...args: unknown[]) => {
        calls.push(name)
        return (value as (...args: unknown[]) => unknown).apply(target, args)
      }
    },
  })
  const server = await TestServer.open({}, counted)
  const key = await server.key(['read', 'operate'], ['mine'])
  const { id } = await server.holdfast.enqueue('x', null, { queue: 'theirs' })
  const callsOf = async (method: string, path: string) => {
    calls.length = 0
    await server.as(key, method, path, method === 'GET' ? {} : { body: {} })
    return calls.filter((name) => name !== 'findKey' && name !== 'touchKey')
  }

  for (const [method, verb] of [
    ['GET', ''],
    ['GET', '/explain'],
    ['POST', '/cancel'],
    ['POST', '/run'],
  ] as const) {
    const foreign = await callsOf(method, `/v1/jobs/${id}${verb}`)
    expect(foreign).toEqual(await callsOf(method, `/v1/jobs/${ABSENT}${verb}`))
    expect(foreign).toEqual(['among'])
  }
  await server.close()
})
