// For every route, a request that it serves. A route without one fails the tests that are made from the table.

import { DropJob } from '../../src/index.js'
import { LeaseTokens } from '../../src/server/lease-token.js'
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

const BREAKER = { failures: 0.5, of: 2, cooldown: '1m' } as const

/** A limit with a job that waits for its group, and one that runs. */
async function limit({ holdfast, store }: TestServer): Promise<string> {
  // Always the same: the jobs of a queue may have 64 sets of limits.
  const name = 'stripe'
  await holdfast.setLimit(name, { concurrency: 2, rate: '100/s', breaker: BREAKER })
  await holdfast.enqueue('pay', null, { queue: 'shop', group: 'acme', limits: [name] })
  await holdfast.enqueue('pay', null, { queue: 'shop', group: 'acme', limits: [name] })
  await store.observe([{ limit: name, ok: 1, failed: 3, overloaded: 0 }])
  return name
}

/** A limit that no job names. */
async function freeLimit({ holdfast }: TestServer): Promise<string> {
  const name = `free-${++count}`
  await holdfast.setLimit(name, { concurrency: { min: 2, max: 9 } })
  return name
}

async function grouped(server: TestServer): Promise<string> {
  await limit(server)
  const options = { queue: 'shop', group: 'odd/../\u00fcber 100%', limits: [await limit(server)], cost: 3 }
  await server.holdfast.setQueue('shop', { groups: { concurrency: 1, rate: '10/s' } })
  return (await server.holdfast.enqueue('pay', null, options)).id
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

/** The lease of a job that a worker over HTTP runs. */
async function lease({ holdfast }: TestServer): Promise<string> {
  await holdfast.enqueue('render', { page: 1 }, { queue: 'render' })
  const claim = { worker: 'http:w', queues: ['render'], types: null, limit: 1, leaseMs: 30_000, waitMs: 0 }
  const [job] = await holdfast.remoteWork.claim({ ...claim, signal: new AbortController().signal })
  return (await LeaseTokens.of(holdfast)).seal(job!)
}

const nothing: MakeExample = async () => ({})
const job: MakeExample = async (server) => ({ params: { id: await enqueue(server) }, body: {} })
const laterJob: MakeExample = async (server) => ({ params: { id: await enqueue(server, '1h') }, body: {} })
const deadJob: MakeExample = async (server) => ({ params: { id: await dead(server) }, body: {} })
const someSchedule: MakeExample = async (server) => ({ params: { name: await schedule(server) }, body: {} })

const someLimit: MakeExample = async (server) => ({ params: { name: await limit(server) }, body: {} })
const someGroup: MakeExample = async (server) => {
  await grouped(server)
  return { params: { name: 'shop', group: 'odd/../\u00fcber 100%' }, body: {} }
}

export const EXAMPLES: Readonly<Record<string, MakeExample>> = {
  healthz: nothing,
  readyz: nothing,
  openApi: nothing,
  metrics: nothing,
  listWorkers: async (server) => {
    const worker = { id: 'w', host: 'h', pid: 1, queues: ['mail'], concurrency: 4, running: 1, draining: false }
    const jobs = [{ id: await enqueue(server), type: 'send_email', queue: 'mail', attempt: 1, startedAtMs: Date.now() }]
    await server.store.beat({ ...worker, version: '1', types: null, jobs, children: { running: 2, restarts: 1 } })
    return {}
  },
  audit: async (server) => ({ query: `limit=5&job=${await dead(server)}` }),
  warnings: async (server) => {
    await enqueue(server)
    return {}
  },
  outbox: nothing,
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
    params: { name: 'shaped' },
    body: {
      ...{ maxAttempts: 3, timeout: null, retention: '2d', retry: { backoff: ['1s', 2_000], jitter: false } },
      ...{ concurrency: 50, rate: { limit: 10, per: '1s', burst: 5 }, maxDepth: 100, onFull: 'wait', aging: '1m' },
      groups: { ordered: true, onDead: 'stop', maxDepth: 10, concurrency: null },
    },
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
  jobOutput: async (server) => {
    const id = await enqueue(server)
    await server.holdfast.cancel(id)
    return { params: { id } }
  },
  jobEvents: async (server) => {
    const id = await enqueue(server)
    await server.holdfast.cancel(id)
    return { params: { id } }
  },
  explainJob: job,
  jobFlow: async (server) => ({ params: { id: await grouped(server) } }),
  listLimits: async (server) => {
    await limit(server)
    await freeLimit(server)
    await server.holdfast.setQueue('shop', { concurrency: 5 })
    return { query: 'limit=5' }
  },
  getLimit: async (server) => ({ params: { name: await limit(server) } }),
  setLimit: async () => ({
    params: { name: 'odd/name:1' },
    body: { concurrency: { min: 1, max: 3 }, rate: '5/m', breaker: { failures: 0.25, within: '10s', probes: 1 } },
  }),
  removeLimit: async (server) => ({ params: { name: await freeLimit(server) }, status: 204 }),
  openBreaker: someLimit,
  closeBreaker: someLimit,
  releaseBreaker: someLimit,
  listGroups: async (server) => {
    await grouped(server)
    await server.holdfast.setGroup('shop', 'big', { concurrency: 3, weight: 2, rate: '1/s' })
    return { params: { name: 'shop' }, query: 'limit=50' }
  },
  setGroup: async (server) => ({ ...(await someGroup(server)), body: { concurrency: 2, rate: null, weight: 3 } }),
  removeGroup: async (server) => ({ ...(await someGroup(server)), status: 204 }),
  pauseGroup: someGroup,
  resumeGroup: someGroup,
  enqueue: async () => ({
    body: { type: 'send_email', payload: { to: 'x' }, queue: 'mail', delay: '5s', tags: ['a'], maxAttempts: 2 },
    status: 201,
  }),
  enqueueMany: async () => ({
    body: {
      jobs: [
        { type: 'a' },
        { type: 'b', payload: [1], idempotencyKey: 'k' },
        { type: 'c', group: 'acme', cost: 2, throttle: { key: 'c', for: '1h' } },
      ],
    },
  }),
  cloneJob: async (server) => ({ params: { id: await enqueue(server) }, body: { delay: '1h' }, status: 201 }),
  cancelJob: job,
  signalJob: async (server) => ({
    params: { id: await enqueue(server) },
    body: { name: 'approved', value: { by: 'ada' }, key: 'event-1' },
  }),
  requeueJob: deadJob,
  requeueDead: deadJob,
  discardJob: deadJob,
  deleteJob: async (server) => ({ params: { id: await dead(server) } }),
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
  scheduleTicks: async (server) => ({ ...(await someSchedule(server)), query: 'limit=5' }),
  backfillSchedule: async (server) => ({
    ...(await someSchedule(server)),
    body: { from: '2026-01-01T00:00:00Z', to: '2026-01-03T00:00:00Z', dryRun: true },
  }),
  resumeSchedule: someSchedule,
  runSchedule: async (server) => ({ ...(await someSchedule(server)), status: 201 }),
  claimWork: async (server) => {
    await enqueue(server)
    return { body: { worker: 'mailer-1', queues: ['mail'], types: ['send_email'], wait: 0, lease: '10s' } }
  },
  extendWork: async (server) => ({ body: { leases: [await lease(server)], lease: '10s' } }),
  settleWork: async (server) => ({
    body: {
      jobs: [
        { lease: await lease(server), outcome: 'succeeded', result: { pages: 3 } },
        { lease: await lease(server), outcome: 'failed', error: { message: 'no paper' }, delay: '1m' },
      ],
    },
  }),
  releaseWork: async (server) => ({ body: { leases: [await lease(server)] } }),
  progressWork: async (server) => ({ body: { lease: await lease(server), progress: { done: 1 } } }),
  logWork: async (server) => ({ body: { lease: await lease(server), lines: ['page 1'] } }),
  leaveWork: async () => ({ body: { worker: 'mailer-1' } }),
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
