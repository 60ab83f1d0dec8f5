// Workers over HTTP: claim, extend, settle, release, progress, log. A key with the scope `work` gets the payloads of the jobs it claims, in
// its queues, and can read nothing else.

import type { RemoteLease, RemoteOutcome } from '../../client/remote-work.js'
import { checkName } from '../../core/check.js'
import { durationMs } from '../../core/duration.js'
import { encodeError, encodeResult, LOG_LINE_BYTES_MAX, type StoredError, safeText } from '../../core/json.js'
import { LeaseTokens } from '../lease-token.js'
import { json, type Route, type RouteRequest, route } from '../route.js'
import { ok } from '../schemas/operating.js'
import * as shapes from '../schemas/work.js'
import { demandQueue, type Who } from '../who.js'

const LEASE_MS = 30_000
const LEASE_MS_MIN = 1_000
const LEASE_MS_MAX = 3_600_000
const WAIT_MS = 20_000
const WAIT_MS_MAX = 60_000
/** How often a worker that claims is written down as alive. */
const BEAT_MS = 10_000
const WORKERS_MAX = 10_000

function leaseMsOf(lease: number | string | undefined): number {
  return lease === undefined
    ? LEASE_MS
    : durationMs(lease as never, { name: 'lease', minMs: LEASE_MS_MIN, maxMs: LEASE_MS_MAX })
}

/** A worker's name in the store: two keys may use the same name. */
function workerIdOf(who: Who, worker: string): string {
  return `http:${who.name.replace(/[^A-Za-z0-9._:/@-]/g, '_').slice(0, 40)}:${checkName('worker', worker)}`.slice(
    0,
    100,
  )
}

const beaten = new WeakMap<object, Map<string, number>>()

/** Whether it is time to write down that a worker lives. */
function isDueToBeat(context: object, worker: string): boolean {
  const times = beaten.get(context) ?? new Map<string, number>()
  beaten.set(context, times)
  const nowMs = performance.now()
  if (nowMs - (times.get(worker) ?? Number.NEGATIVE_INFINITY) < BEAT_MS) return false
  if (times.size >= WORKERS_MAX) times.clear()
  times.set(worker, nowMs)
  return true
}

async function claim({ context, holdfast, who, body, http }: RouteRequest<unknown, unknown, shapes.ClaimBody>) {
  for (const queue of body.queues) demandQueue(who, checkName('queue', queue))
  const types = body.types?.map((type) => checkName('type', type)) ?? null
  const worker = workerIdOf(who, body.worker)
  const leaseMs = leaseMsOf(body.lease)
  const { limit = 1, wait = WAIT_MS, concurrency = limit, running = 0, host = 'http' } = body
  const waitMs = durationMs(wait as never, { name: 'wait', maxMs: WAIT_MS_MAX })
  const queues = [...new Set(body.queues)]
  if (isDueToBeat(context, worker)) {
    await holdfast.remoteWork.beat({ id: worker, queues, types, concurrency, running, host, version: 'http' })
  }
  const request = { worker, queues, types, limit, leaseMs, waitMs, signal: http.signal }
  const jobs = await holdfast.remoteWork.claim(request)
  const tokens = await LeaseTokens.of(holdfast)
  return json({
    leaseMs,
    jobs: jobs.map((job) => ({
      lease: tokens.seal(job),
      ...{
        id: job.id,
        fence: job.fence,
        type: job.type,
        queue: job.queue,
        payload: JSON.parse(job.payload) as unknown,
      },
      ...{ version: job.version, priority: job.priority, attempt: job.attempt, maxAttempts: job.limits.maxAttempts },
      ...{ timeoutMs: job.limits.timeoutMs, createdAt: new Date(job.createdAtMs).toISOString(), tags: job.tags },
      ...{ group: job.flow?.group ?? null, traceparent: job.trace },
    })),
  })
}

async function openAll({ holdfast, who }: RouteRequest, leases: readonly string[]): Promise<readonly RemoteLease[]> {
  const tokens = await LeaseTokens.of(holdfast)
  return leases.map((lease, index) => openOne(tokens, who, lease, `body.leases.${index}`))
}

// A key whose queues were cut down keeps none of the jobs it had elsewhere.
function openOne(tokens: LeaseTokens, who: Who, lease: string, place: string): RemoteLease {
  const opened = tokens.open(lease, place)
  demandQueue(who, opened.queue)
  return opened
}

async function settle(request: RouteRequest<unknown, unknown, shapes.SettleBody>) {
  const { holdfast, who, body } = request
  const tokens = await LeaseTokens.of(holdfast)
  const ends = body.jobs.map((end, index) => ({
    lease: openOne(tokens, who, end.lease, `body.jobs.${index}.lease`),
    outcome: outcomeOf(end),
  }))
  const results = await holdfast.remoteWork.settle(ends)
  return json({ jobs: results.map(({ id, result, state }) => ({ id, result, state })) })
}

function outcomeOf(end: shapes.WorkEnd): RemoteOutcome {
  switch (end.outcome) {
    case 'succeeded':
      return { kind: 'succeeded', result: end.result ?? null }
    case 'failed': {
      const delayMs = end.delay === undefined ? null : durationMs(end.delay as never, { name: 'delay' })
      return { kind: 'failed', error: errorOf(end.error), retryable: end.retryable ?? true, delayMs }
    }
    case 'dropped':
    case 'invalid':
      return { kind: end.outcome, error: errorOf(end.error) }
    case 'released':
    case 'snoozed':
      return { kind: end.outcome, delayMs: durationMs((end.delay ?? 0) as never, { name: 'delay' }) }
    case 'rate_limited': {
      const delayMs = durationMs(end.delay as never, { name: 'delay', maxMs: 86_400_000 })
      return { kind: 'rate_limited', delayMs, scope: end.scope ?? null }
    }
    case 'cancelled':
      return { kind: 'cancelled' }
  }
}

/** An error as a worker here would have kept it. */
function errorOf({ name = 'Error', message, code, stack }: shapes.WorkError): StoredError {
  const error = Object.assign(new Error(message), { name, stack }, code === undefined ? {} : { code })
  return encodeError(error)
}

const done = { 200: { description: 'Done', schema: ok } } as const

export const workRoutes: readonly Route[] = [
  route('POST /v1/work/claim', {
    name: 'claimWork',
    summary: 'Leases jobs for a worker; waits for the first of them',
    body: shapes.claimBody,
    answers: { 200: { description: 'The jobs, none when the wait is over', schema: shapes.claimed } },
    answer: claim,
  }),
  route('POST /v1/work/extend', {
    name: 'extendWork',
    summary: 'Keeps leases, and says which jobs should stop',
    body: shapes.extendBody,
    isBatch: true,
    answers: { 200: { description: 'The state of each lease, in order', schema: shapes.extended } },
    answer: async (request) => {
      const leases = await openAll(request, request.body.leases)
      const states = await request.holdfast.remoteWork.extend(leases, leaseMsOf(request.body.lease))
      return json({ leases: leases.map(({ id }, index) => ({ id, state: states[index]! })) })
    },
  }),
  route('POST /v1/work/settle', {
    name: 'settleWork',
    summary: 'Ends attempts; repeating one that took effect is a success',
    body: shapes.settleBody,
    isBatch: true,
    answers: { 200: { description: 'What became of each job, in order', schema: shapes.settled } },
    answer: settle,
  }),
  route('POST /v1/work/release', {
    name: 'releaseWork',
    summary: 'Gives jobs back with their attempts, as at a shutdown',
    body: shapes.releaseBody,
    isBatch: true,
    answers: { 200: { description: 'What became of each job, in order', schema: shapes.settled } },
    answer: async (request) => {
      const leases = await openAll(request, request.body.leases)
      const outcome: RemoteOutcome = { kind: 'released', delayMs: 0 }
      const results = await request.holdfast.remoteWork.settle(leases.map((lease) => ({ lease, outcome })))
      return json({ jobs: results.map(({ id, result, state }) => ({ id, result, state })) })
    },
  }),
  route('POST /v1/work/progress', {
    name: 'progressWork',
    summary: 'Keeps the progress of a running job',
    body: shapes.progressBody,
    answers: done,
    answer: async ({ holdfast, who, body }) => {
      const { id, fence, queue } = openOne(await LeaseTokens.of(holdfast), who, body.lease, 'body.lease')
      await holdfast.remoteWork.note([{ id, fence, queue, progress: encodeResult(body.progress ?? null), logs: [] }])
      return json({ status: 'ok' })
    },
  }),
  route('POST /v1/work/log', {
    name: 'logWork',
    summary: 'Keeps log lines of a running job',
    body: shapes.logBody,
    answers: done,
    answer: async ({ context, holdfast, who, body }) => {
      const { id, fence, queue } = openOne(await LeaseTokens.of(holdfast), who, body.lease, 'body.lease')
      const atMs = await context.facts.nowMs()
      const logs = body.lines.map((line) => ({ atMs, text: safeText(line, LOG_LINE_BYTES_MAX) }))
      await holdfast.remoteWork.note([{ id, fence, queue, progress: null, logs }])
      return json({ status: 'ok' })
    },
  }),
  route('POST /v1/work/leave', {
    name: 'leaveWork',
    summary: 'Takes a worker that has stopped off the list',
    body: shapes.leaveBody,
    answers: done,
    answer: async ({ holdfast, who, body }) => {
      await holdfast.remoteWork.leave(workerIdOf(who, body.worker))
      return json({ status: 'ok' })
    },
  }),
]
