// For every route, a request that it serves. A route without one fails the tests that are made from the table.

import { DropJob } from '../../src/index.js'
import { finish } from '../client/support.js'
import { type TestServer, TOKEN } from './support.js'

export interface Example {
  readonly params?: Readonly<Record<string, string>>
  readonly query?: string
  readonly body?: unknown
  /** What is answered. Default 200. */
  readonly status?: number
}

type MakeExample = (server: TestServer) => Promise<Example>

async function enqueue({ holdfast }: TestServer, delay?: '1h'): Promise<string> {
  const options = { queue: 'mail', tags: ['eu'], ...(delay === undefined ? {} : { delay }) } as const
  return (await holdfast.enqueue('send_email', { to: 'ada@example.com', password: 'hunter2' }, options)).id
}

async function dead(server: TestServer): Promise<string> {
  await server.holdfast.enqueue('charge_card', { amount: 3 }, { queue: 'billing' })
  return finish(server.store, 'billing', { state: 'dead', error: new DropJob('no such card') })
}

async function bulk({ holdfast }: TestServer): Promise<string> {
  return (await holdfast.bulk({ action: 'cancel', filter: 'queue:nothing' })).id
}

let count = 0

async function schedule({ holdfast }: TestServer): Promise<string> {
  const name = `nightly-${++count}`
  await holdfast.schedule(name, { cron: '0 3 * * *', zone: 'Europe/Vienna', job: 'report', payload: { token: 'x' } })
  return name
}

const nothing: MakeExample = async () => ({})
const job: MakeExample = async (server) => ({ params: { id: await enqueue(server) }, body: {} })
const laterJob: MakeExample = async (server) => ({ params: { id: await enqueue(server, '1h') }, body: {} })
const deadJob: MakeExample = async (server) => ({ params: { id: await dead(server) }, body: {} })
const someSchedule: MakeExample = async (server) => ({ params: { name: await schedule(server) }, body: {} })

export const EXAMPLES: Readonly<Record<string, MakeExample>> = {
  healthz: nothing,
  readyz: nothing,
  openApi: nothing,
  metrics: nothing,
  listWorkers: async (server) => {
    const worker = { id: 'w', host: 'h', pid: 1, queues: ['mail'], concurrency: 4, running: 1, draining: false }
    const jobs = [{ id: await enqueue(server), type: 'send_email', queue: 'mail', attempt: 1, startedAtMs: Date.now() }]
    await server.store.beat({ ...worker, version: '1', types: null, jobs })
    return {}
  },
  audit: async (server) => ({ query: `limit=5&job=${await dead(server)}` }),
  warnings: async (server) => {
    await enqueue(server)
    return {}
  },
  events: nothing,
  me: nothing,
  stats: async () => ({ query: 'queue=mail' }),
  listQueues: async (server) => {
    await enqueue(server)
    return {}
  },
  getQueue: async (server) => {
    await enqueue(server)
    return { params: { name: 'mail' } }
  },
  setQueue: async () => ({
    params: { name: 'mail' },
    body: { maxAttempts: 3, timeout: null, retention: '2d', retry: { backoff: ['1s', 2_000], jitter: false } },
  }),
  pauseQueue: async () => ({ params: { name: 'odd/name' }, body: {} }),
  resumeQueue: async () => ({ params: { name: 'odd/name' }, body: {} }),
  removeQueue: async (server) => {
    await server.holdfast.setQueue('empty', { maxAttempts: 3 })
    return { params: { name: 'empty' }, status: 204 }
  },
  series: async () => ({ query: 'since=1h&step=60s' }),
  deadGroups: async (server) => {
    await dead(server)
    return { query: 'queue=billing' }
  },
  listJobs: async (server) => {
    await enqueue(server)
    await dead(server)
    return { query: 'filter=queue:mail,billing&limit=10' }
  },
  countJobs: async () => ({ query: 'filter=state:dead&max=100' }),
  getJob: async (server) => {
    const id = await dead(server)
    await server.holdfast.requeue(id)
    return { params: { id } }
  },
  revealPayload: job,
  explainJob: job,
  enqueue: async () => ({
    body: { type: 'send_email', payload: { to: 'x' }, queue: 'mail', delay: '5s', tags: ['a'], maxAttempts: 2 },
    status: 201,
  }),
  enqueueMany: async () => ({ body: { jobs: [{ type: 'a' }, { type: 'b', payload: [1], idempotencyKey: 'k' }] } }),
  cloneJob: async (server) => ({ params: { id: await enqueue(server) }, body: { delay: '1h' }, status: 201 }),
  cancelJob: job,
  requeueJob: deadJob,
  requeueDead: deadJob,
  discardJob: deadJob,
  runJob: laterJob,
  updateJob: async (server) => ({ params: { id: await enqueue(server) }, body: { priority: 5, payload: { to: 'y' } } }),
  requeueMany: async (server) => {
    await dead(server)
    return { body: { filter: 'queue:billing', perSecond: 10 }, status: 202 }
  },
  startBulk: async () => ({ body: { action: 'cancel', filter: 'queue:mail', dryRun: true } }),
  listBulks: async (server) => {
    await bulk(server)
    return {}
  },
  getBulk: async (server) => ({ params: { id: await bulk(server) } }),
  cancelBulk: async (server) => ({ params: { id: await bulk(server) }, body: {} }),
  listSchedules: async (server) => {
    await schedule(server)
    return {}
  },
  setSchedule: async () => ({
    params: { name: 'hourly' },
    body: { cron: '0 * * * *', type: 'report', payload: { a: 1 }, overlap: 'skip', maxAttempts: 2 },
  }),
  removeSchedule: async (server) => ({ ...(await someSchedule(server)), status: 204 }),
  pauseSchedule: someSchedule,
  resumeSchedule: someSchedule,
  runSchedule: async (server) => ({ ...(await someSchedule(server)), status: 201 }),
  signIn: async () => ({ body: { token: TOKEN } }),
  signOut: async () => ({ body: {}, status: 204 }),
  listKeys: nothing,
  createKey: async () => ({ body: { name: 'ci', scopes: ['enqueue'], expiresIn: '1h' }, status: 201 }),
  revokeKey: async ({ holdfast }) => {
    const { key } = await holdfast.createKey({ name: 'old', scopes: ['read'] })
    return { params: { id: key.id }, body: {} }
  },
}

/** The path of a request to a route. */
export function pathOf(template: string, { params = {}, query }: Example): string {
  const path = template.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(params[name]!))
  return query === undefined ? path : `${path}?${query}`
}
