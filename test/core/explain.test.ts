import { describe, expect, test } from 'vitest'
import { explainJob } from '../../src/core/explain.js'
import type { Standing } from '../../src/core/operating.js'
import type { JobView, WorkerView } from '../../src/core/views.js'

const NOW_MS = Date.UTC(2026, 10, 1, 12)
const ago = (ms: number) => new Date(NOW_MS - ms)
const ERROR = { name: 'TimeoutError', message: 'no answer\nin 30 s' }

function jobView(changes: Partial<JobView>): JobView {
  return {
    ...{ id: 'job-1', type: 'send_email', queue: 'email', state: 'ready', payload: null, version: 1, priority: 0 },
    ...{
      attempt: 0,
      crashes: 0,
      maxAttempts: 10,
      runAt: null,
      createdAt: ago(60_000),
      startedAt: null,
      finishedAt: null,
    },
    ...{
      result: null,
      reason: null,
      error: null,
      attempts: [],
      worker: null,
      leasedUntil: null,
      cancelRequested: false,
    },
    ...{ progress: null, logs: [], tags: [], idempotencyKey: null, after: [], onParentDead: 'cancel', schedule: null },
    requeues: [],
    ...changes,
  }
}

function worker(changes: Partial<Standing['workers'][number]> = {}): Standing['workers'][number] {
  const beat: WorkerView = {
    ...{ id: 'w1', host: 'h', pid: 1, queues: ['email'], concurrency: 2, running: 0, draining: false, version: '1' },
    ...{ types: null, jobs: [], children: null, startedAt: ago(1), seenAt: ago(1) },
  }
  return { ...beat, knowsType: true, ...changes }
}

function explain(job: Partial<JobView>, changes: Partial<Standing> = {}) {
  const standing = { queuePaused: false, ahead: { count: 0, isExact: true }, parents: [], workers: [worker()] }
  return explainJob({ ...standing, keyHeldBy: null, nowMs: NOW_MS, job: jobView(job), ...changes })
}

const codes = ({ reasons }: ReturnType<typeof explain>) => reasons.map(({ code }) => code)

describe('explainJob', () => {
  test('a job that is in the outbox alone says where it is, and why it is not taken', () => {
    const since = ago(65_000)

    const waiting = explain({}, { outbox: { outcome: 'waiting', since, why: 'queue "email" is full', holder: null } })
    const held = explain(
      { state: 'cancelled' },
      { outbox: { outcome: 'deduplicated', since, why: null, holder: 'other' } },
    )

    expect(codes(waiting)).toEqual(['in_outbox'])
    expect(waiting.summary).toContain('is not in Redis yet; the last time it was not taken: queue "email" is full')
    expect(codes(held)).toEqual(['not_sent'])
    expect(held.summary).toContain('job other has its idempotency key')
  })

  test('a ready job with nothing before it is next', () => {
    const answer = explain({})

    expect(codes(answer)).toEqual(['next_in_line'])
    expect(answer.next).toEqual([])
    expect(answer.summary).toBe(
      'This job is ready: nothing is ahead of it and a worker has a free slot: it is about to be claimed.',
    )
  })

  test('a ready job behind others says how many', () => {
    const some = explain({}, { ahead: { count: 412, isExact: true } })
    const many = explain({}, { ahead: { count: 10_000, isExact: false } })

    expect(some.reasons[0]).toMatchObject({ code: 'behind', text: '412 jobs of queue "email" come before it' })
    expect(many.reasons[0]!.text).toBe('more than 10,000 jobs of queue "email" come before it')
  })

  test('a ready job waits for a slot when all are taken', () => {
    const full = worker({ running: 2 })

    expect(codes(explain({}, { workers: [full, full] }))).toEqual(['workers_full'])
    expect(codes(explain({}, { workers: [full], ahead: { count: 1, isExact: true } }))).toEqual([
      'behind',
      'workers_full',
    ])
    expect(codes(explain({}, { workers: [full, worker()] }))).toEqual(['next_in_line'])
  })

  test('a ready job that nobody can run says why', () => {
    expect(codes(explain({}, { workers: [] }))).toEqual(['no_worker'])
    expect(codes(explain({}, { workers: [worker({ draining: true })] }))).toEqual(['no_worker'])
    expect(codes(explain({}, { workers: [worker({ knowsType: false })] }))).toEqual(['type_unknown'])
    expect(codes(explain({}, { queuePaused: true, workers: [] }))).toEqual(['queue_paused', 'no_worker'])
    expect(explain({}, { queuePaused: true }).next).toEqual(['resume queue "email"'])
  })

  test('a scheduled job says when its time comes', () => {
    const answer = explain({ state: 'scheduled', runAt: new Date(NOW_MS + 180_000) })

    expect(answer.reasons).toMatchObject([
      { code: 'due_later', text: 'it may run in 3 min, at 2026-11-01T12:03:00.000Z' },
    ])
  })

  test('a retrying job says when and why', () => {
    const runAt = new Date(NOW_MS + 42_000)
    const answer = explain({ state: 'retrying', runAt, attempt: 3, error: ERROR })

    expect(answer.reasons[0]).toMatchObject({
      code: 'retry_later',
      text: 'it retries in 42 s because attempt 3 of 10 failed: TimeoutError: no answer in 30 s',
      facts: { runAt, attempt: 3 },
    })
  })

  test('a job whose time has come waits for the next promotion', () => {
    const late = explain({ state: 'scheduled', runAt: ago(5_000) })

    expect(late.reasons[0]).toMatchObject({ code: 'due_now' })
    expect(late.next).toEqual(['make sure that a process with upkeep runs'])
    expect(explain({ state: 'retrying', runAt: ago(0) }).summary).toContain('its time came just now')
  })

  test('what would hold up a job after its time is listed as well', () => {
    const answer = explain({ state: 'scheduled', runAt: ago(-60_000) }, { workers: [], queuePaused: true })

    expect(codes(answer)).toEqual(['due_later', 'queue_paused', 'no_worker'])
  })

  test('a blocked job names the jobs it comes after', () => {
    const parents = [
      { id: 'p1', state: 'succeeded', type: 'extract', queue: 'default' },
      { id: 'p2', state: 'running', type: 'load', queue: 'default' },
      { id: 'p3', state: null, type: null, queue: null },
    ] as const
    const answer = explain({ state: 'blocked' }, { parents })

    expect(answer.reasons[0]).toMatchObject({ code: 'waits_for_parent', text: 'it comes after load p2 (running)' })
    expect(answer.next).toEqual(['see what job p2 waits for'])
    expect(codes(explain({ state: 'blocked' }, { parents: parents.slice(0, 1) }))).toEqual(['due_now'])
  })

  test('a running job names its worker', () => {
    const answer = explain({
      state: 'running',
      attempt: 2,
      worker: 'w1',
      startedAt: ago(8_000),
      leasedUntil: ago(-9_000),
    })

    expect(answer.reasons).toMatchObject([
      { code: 'running', text: 'attempt 2 of 10 was claimed by worker w1 8 s ago' },
    ])
  })

  test('a running job is explained by a lease that ran out, or by a cancel', () => {
    const answer = explain({ state: 'running', worker: 'w1', leasedUntil: ago(12_000), cancelRequested: true })

    expect(codes(answer)).toEqual(['running', 'lease_expired', 'cancel_asked'])
    expect(answer.summary).toContain('its lease ran out 12 s ago')
  })

  test.each([
    ['attempts', 'it used up its 10 attempts 2 h ago; the last error was TimeoutError: no answer in 30 s'],
    ['dropped', 'its handler dropped it'],
    ['expired', 'it was too old to run'],
    ['crashed', 'its worker was lost 3 times'],
    ['invalid', 'its payload does not fit its schema'],
  ] as const)('a dead job says what killed it: %s', (reason, text) => {
    const finishedAt = ago(7_200_000)
    const answer = explain({ state: 'dead', reason, crashes: 3, finishedAt, error: ERROR })

    expect(answer.reasons[0]!.text).toContain(text)
    expect(answer.next).toHaveLength(1)
  })

  test('a dead job whose key is taken says who has it', () => {
    const answer = explain({ state: 'dead', reason: 'attempts', idempotencyKey: 'welcome' }, { keyHeldBy: 'job-2' })

    expect(codes(answer)).toEqual(['dead', 'held_by_key'])
    expect(answer.next.at(-1)).toBe('wait until job job-2 has finished, or cancel it')
  })

  test('a finished job says how it ended', () => {
    const done = explain({ state: 'succeeded', startedAt: ago(5 * 86_400_000 + 250), finishedAt: ago(5 * 86_400_000) })
    const gone = explain({ state: 'cancelled', finishedAt: ago(0) })

    expect(done.summary).toBe('This job is succeeded: it succeeded 5 days ago, after running for 250 ms.')
    expect(gone.summary).toBe('This job is cancelled: it was cancelled just now, without running.')
  })
})
