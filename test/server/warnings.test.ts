// Warnings: what an operator should know, found in what the store says.

import { expect, test } from 'vitest'
import type { Health } from '../../src/client/look.js'
import type { ScheduleStatus } from '../../src/client/schedules.js'
import type { BreakerView, LimitView, StoppedGroup } from '../../src/core/flow/views.js'
import type { PostgresHealth, QueueOverview } from '../../src/core/operating.js'
import type { OutboxHealth } from '../../src/core/outbox.js'
import type { WorkerView } from '../../src/core/views.js'
import type { Warning } from '../../src/server/schemas/operating.js'
import { warningsOf } from '../../src/server/warnings.js'

const NOW = Date.UTC(2026, 0, 1)
const ago = (ms: number) => new Date(NOW - ms)

const queue = (changes: Partial<QueueOverview> = {}): QueueOverview => ({
  name: 'mail',
  paused: false,
  settings: { limits: {} },
  blocked: 0,
  scheduled: 0,
  ready: 0,
  running: 0,
  retrying: 0,
  dead: 0,
  oldestAgeS: 0,
  workers: 1,
  slots: 10,
  rates: { enqueued: 0, succeeded: 0, failed: 0, dead: 0 },
  ...changes,
})

const health = (postgres: Partial<PostgresHealth> | null = null, isDurable = true): Health => ({
  kind: postgres === null ? 'memory' : 'postgres',
  version: '1',
  isDurable,
  nowMs: NOW,
  clockOffsetMs: 0,
  roundTripMs: 1,
  postgres: postgres as PostgresHealth | null,
})

const settings = {
  synchronousCommit: 'on',
  synchronousCommitOfRole: 'on',
  fsync: true,
  fullPageWrites: true,
  autovacuum: true,
  maxConnections: 100,
  statementTimeout: '0',
  readOnlyByDefault: false,
}

interface Seen {
  readonly queues?: readonly QueueOverview[]
  readonly workers?: readonly Partial<WorkerView>[]
  readonly schedules?: readonly Partial<ScheduleStatus>[]
  readonly health?: Health
}

function codes({ queues = [], workers = [], schedules = [], health: seen = health() }: Seen): readonly string[] {
  const found = warningsOf({
    overview: { nowMs: NOW, queues, total: queues.length, isExact: true },
    workers: workers as readonly WorkerView[],
    schedules: schedules as readonly ScheduleStatus[],
    health: seen,
  })
  for (const { text, next } of found) expect(text.length * next.length).toBeGreaterThan(0)
  return found.map(({ code, level }) => `${level} ${code}`)
}

test('a healthy system has none', () => {
  const worker = { id: 'w', pid: 1, host: 'h', seenAt: ago(9_000) }
  const schedule = { name: 's', paused: false, nextAt: ago(-1_000), queue: 'mail' }

  expect(codes({ queues: [queue({ ready: 5 })], workers: [worker], schedules: [schedule] })).toEqual([])
})

test.each([
  ['jobs wait and no worker serves them', { queues: [queue({ ready: 1, workers: 0 })] }, 'error no_worker'],
  ['a paused queue has jobs', { queues: [queue({ ready: 1, paused: true, workers: 0 })] }, 'note paused_backlog'],
  ['a job has waited long', { queues: [queue({ ready: 1, oldestAgeS: 301 })] }, 'warning oldest_age'],
  [
    'jobs are dying',
    { queues: [queue({ rates: { enqueued: 0, succeeded: 0, failed: 0, dead: 0.1 } })] },
    'warning dead_growing',
  ],
  [
    'a worker has not been seen',
    { workers: [{ id: 'w', pid: 1, host: 'h', seenAt: ago(40_000) }] },
    'warning heartbeat_gap',
  ],
  [
    'a schedule is late',
    { schedules: [{ name: 's', paused: false, nextAt: ago(120_000), queue: 'q' }] },
    'error schedule_late',
  ],
  [
    'a schedule has no time to come',
    { schedules: [{ name: 's', paused: false, nextAt: null, queue: 'q' }] },
    'warning schedule_broken',
  ],
  [
    'commits are not waited for',
    { health: health({ settings: { ...settings, synchronousCommit: 'off' }, inRecovery: false }) },
    'error not_durable',
  ],
  ['the database is read-only', { health: health({ settings, inRecovery: true }) }, 'error read_only'],
  [
    'a transaction holds the horizon',
    { health: health({ settings, inRecovery: false, horizon: { ageMs: 700_000, xids: 5, holder: null } }) },
    'warning horizon_held',
  ],
] satisfies readonly (readonly [string, Seen, string])[])('%s', (_, seen, expected) => {
  expect(codes(seen)).toEqual([expected])
})

test('paused schedules and workers gone for long give no warning', () => {
  const schedule = { name: 's', paused: true, nextAt: ago(120_000), queue: 'q' }
  const worker = { id: 'w', pid: 1, host: 'h', seenAt: ago(3_600_000) }

  expect(codes({ schedules: [schedule], workers: [worker] })).toEqual([])
})

test('the worst comes first', () => {
  const queues = [
    queue({ ready: 1, paused: true }),
    queue({ ready: 1, oldestAgeS: 400 }),
    queue({ ready: 1, workers: 0 }),
  ]

  expect(codes({ queues })).toEqual(['error no_worker', 'warning oldest_age', 'note paused_backlog'])
})

test.each([
  [true, 994_871, '994,871 jobs are ready in mail and no worker serves it'],
  [false, 994_871, 'about 995,000 jobs are ready in mail and no worker serves it'],
  [true, 1, '1 job is ready in mail and no worker serves it'],
])('counts can be read, and an estimate says that it is one: exact %s, %i', (isExact, ready, text) => {
  const overview = { nowMs: NOW, queues: [queue({ ready, workers: 0 })], total: 1, isExact }

  const [warning] = warningsOf({ overview, workers: [], schedules: [], health: health() })

  expect(warning!.text).toBe(text)
})

function breakerOf(changes: Partial<BreakerView>): LimitView {
  const nothing = { concurrency: null, rate: null, adaptive: null, level: null, tokens: null, until: null }
  const breaker = { settings: null, position: 'open', since: ago(60_000), probeAt: ago(-9_000), opens: 1 } as const
  const counts = { forced: null, ok: 0, failed: 0, history: [] }
  return { name: 'bank', origin: 'operator', running: 0, ...nothing, breaker: { ...breaker, ...counts, ...changes } }
}

function flowWarnings(seen: { limits?: readonly LimitView[]; stopped?: readonly StoppedGroup[] }): readonly Warning[] {
  const overview = { nowMs: NOW, queues: [], total: 0, isExact: true }
  return warningsOf({ overview, workers: [], schedules: [], health: health(), ...seen })
}

test('a breaker that is not closed is reported: when it is probed, and when somebody holds it', () => {
  const texts = (changes: Partial<BreakerView>) =>
    flowWarnings({ limits: [breakerOf(changes)] }).map(({ level, limit, text }) => `${level} ${limit}: ${text}`)

  expect(texts({ position: 'closed' })).toEqual([])
  expect(texts({})).toEqual(['warning bank: the breaker of limit bank is open: its jobs wait, it is probed in 9s'])
  expect(texts({ opens: 3, position: 'half_open', probeAt: null })).toEqual([
    'warning bank: the breaker of limit bank is open for the 3rd time in a row: its jobs wait, a few jobs try it out now',
  ])
  expect(texts({ forced: 'open' })).toEqual([
    'note bank: the breaker of limit bank has been held open for 60s: its jobs wait',
  ])
})

test('stopped groups are reported once for each queue, a few of them by name', () => {
  const stopped = ['a', 'b', 'c', 'd', 'e'].map((group) => ({ queue: 'orders', group, stoppedBy: 'id' }))

  const found = flowWarnings({ stopped: [...stopped, { queue: 'mail', group: 'x"y', stoppedBy: 'id' }] })

  expect(found.map(({ code, queue, text }) => [code, queue, text])).toEqual([
    ['group_stopped', 'orders', 'groups "a", "b", "c" and 2 more of orders stopped because a job died'],
    ['group_stopped', 'mail', 'group "x\\"y" of mail stopped because a job died'],
  ])
})

test('an outbox is reported when it is away, when its rows wait for long, and when it refused jobs', () => {
  const calm = {
    isReachable: true,
    schema: 'holdfast',
    waiting: 3,
    isExact: true,
    oldestMs: 800,
    refused: 0,
    roundTripMs: 1,
  }
  const codesOf = (outbox: Partial<OutboxHealth>) => codes({ health: { ...health(), outbox: { ...calm, ...outbox } } })

  expect(codesOf({})).toEqual([])
  expect(codesOf({ oldestMs: 40_000 })).toEqual(['warning outbox_waiting'])
  expect(codesOf({ refused: 2 })).toEqual(['warning outbox_refused'])
  expect(codesOf({ isReachable: false })).toEqual(['error outbox_away'])
})
