// A job that comes in over HTTP, as curl or another language sends it, runs; on PostgreSQL, with a real worker.

import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { connect, defineJob, type Holdfast } from '../../src/index.js'
import { createServer, type Listening, type Server } from '../../src/server/index.js'
import { testServerUrl } from '../support/postgres.js'
import { TOKEN } from './support.js'

const schema = `http_${process.pid}`
let holdfast: Holdfast
let server: Server
let listening: Listening

const greet = defineJob('greet', { queue: 'hello' })

beforeAll(async () => {
  holdfast = await connect(testServerUrl(), { schema })
  server = createServer(holdfast, { token: TOKEN })
  listening = await server.listen({ port: 0 })
  const handler = greet.handle((payload) => `hello, ${(payload as { name: string }).name}`)
  await holdfast.worker({ handlers: [handler] }).start()
})

afterAll(async () => {
  await server.close()
  await holdfast.close()
})

interface Sent {
  readonly status: number
  readonly body: Record<string, unknown>
}

/** With curl itself where there is one: it is what people try first. */
async function curl(path: string, body: unknown): Promise<Sent> {
  const args = ['-sS', '-w', '\n%{http_code}', `${listening.url}${path}`]
  const headers = ['-H', `Authorization: Bearer ${TOKEN}`, '-H', 'Content-Type: application/json']
  try {
    const { stdout } = await promisify(execFile)('curl', [...args, ...headers, '-d', JSON.stringify(body)])
    const [text, status] = stdout.split(/\n(?=\d{3}$)/)
    return { status: Number(status), body: JSON.parse(text!) }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    const options = {
      method: 'POST',
      headers: { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' },
    }
    const response = await fetch(`${listening.url}${path}`, { ...options, body: JSON.stringify(body) })
    return { status: response.status, body: (await response.json()) as Record<string, unknown> }
  }
}

test('a job enqueued over HTTP runs', async () => {
  const { status, body } = await curl('/v1/jobs', { type: 'greet', payload: { name: 'Ada' }, queue: 'hello' })

  expect([status, body.created]).toEqual([201, true])
  expect(await holdfast.wait(body.id as string)).toBe('hello, Ada')
})

test('the same idempotency key answers 200 with the same job', async () => {
  const job = { type: 'greet', payload: { name: 'Bob' }, queue: 'hello', idempotencyKey: { key: 'once', for: '1h' } }

  const first = await curl('/v1/jobs', job)
  await holdfast.wait(first.body.id as string)
  const second = await curl('/v1/jobs', job)

  expect([first.status, first.body.created]).toEqual([201, true])
  expect([second.status, second.body]).toEqual([200, { id: first.body.id, created: false, state: 'succeeded' }])
})

test('a batch of 5,000 is accepted, one more is refused', async () => {
  const jobs = Array.from({ length: 5_000 }, (_, index) => ({ type: 'later', queue: 'batch', payload: index }))

  const taken = await curlFile('/v1/jobs/batch', { jobs })
  const refused = await curlFile('/v1/jobs/batch', { jobs: [...jobs, jobs[0]] })

  expect(taken.status).toBe(200)
  expect(new Set((taken.body.jobs as { id: string }[]).map(({ id }) => id)).size).toBe(5_000)
  expect(refused.status).toBe(400)
  expect((await holdfast.stats('batch')).ready).toBe(5_000)
})

async function curlFile(path: string, body: unknown): Promise<Sent> {
  const headers = { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' }
  const response = await fetch(`${listening.url}${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
  return { status: response.status, body: (await response.json()) as Record<string, unknown> }
}

test('the trace of a request is kept with its jobs; an invalid one is ignored', async () => {
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
  const post = async (path: string, trace: string, body: object) => {
    const headers = { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json', traceparent: trace }
    return fetch(`${listening.url}${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
  }
  const queue = `traced_${process.pid}`
  const job = (type: string) => ({ type, queue })

  const one = await post('/v1/jobs', traceparent, job('one'))
  const many = await post('/v1/jobs/batch', traceparent, { jobs: [job('two'), job('three')] })
  const odd = await post('/v1/jobs', '00-not-a-trace', job('four'))
  const sql = new pg.Client({ connectionString: testServerUrl() })
  await sql.connect()
  const { rows } = await sql.query(`SELECT type, options ->> 'trace' AS trace FROM "${schema}".jobs WHERE queue = $1`, [
    queue,
  ])
  await sql.end()

  expect([one.status, many.status, odd.status]).toEqual([201, 200, 201])
  const traces = Object.fromEntries(
    (rows as { type: string; trace: string | null }[]).map((row) => [row.type, row.trace]),
  )
  expect(traces).toEqual({ one: traceparent, two: traceparent, three: traceparent, four: null })
})

test('what the library refuses is a problem with its code', async () => {
  const post = (body: unknown) => curl('/v1/jobs', body)

  expect((await post({ type: 'no spaces' })).body).toMatchObject({ status: 400, code: 'invalid_name' })
  expect((await post({ type: 'x', delay: 'soon' })).body).toMatchObject({ status: 400, code: 'invalid_option' })
  expect((await post({ type: 'x', after: '00000000-0000-7000-8000-000000000000' })).body).toMatchObject({
    status: 422,
    code: 'unknown_parent',
  })
  expect((await post({ type: 'x', unknown: 1 })).body).toMatchObject({
    status: 400,
    code: 'invalid_option',
    issues: [{ path: 'body', message: expect.stringContaining('unknown') }],
  })
})

test('a clone keeps the version of the payload, its queue, priority and tags', async () => {
  const old = defineJob('versioned', {
    queue: 'clones',
    priority: 7,
    tags: ['eu'],
    version: 2,
    upgrade: { 1: (payload) => payload },
  })
  const { id } = await holdfast.enqueue(old, { a: 1 })

  const { body } = await curl(`/v1/jobs/${id}/clone`, { delay: '1h' })

  const clone = await holdfast.get(body.id as string)
  expect(clone).toMatchObject({
    type: 'versioned',
    version: 2,
    priority: 7,
    tags: ['eu'],
    queue: 'clones',
    state: 'scheduled',
  })
  expect(clone!.payload).toEqual({ a: 1 })
})
