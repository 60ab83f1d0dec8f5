import { describe, expect, test } from 'vitest'
import type { Job } from '../../dashboard/src/api/types.js'
import { maskedPaths } from '../../dashboard/src/views/job/masked-paths.js'
import { readProgress } from '../../dashboard/src/views/job/progress.js'
import { timelineOf } from '../../dashboard/src/views/job/timeline.js'
import { momentOf } from '../../dashboard/src/views/jobs/row-moment.js'
import { JOB_STATES } from '../../src/core/states.js'

const at = (seconds: number) => new Date(Date.parse('2026-11-15T12:00:00Z') + seconds * 1_000).toISOString()
const error = { name: 'TimeoutError', message: 'no answer' }

const job: Job = {
  id: '1',
  type: 'send_email',
  queue: 'email',
  state: 'ready',
  version: 1,
  priority: 0,
  attempt: 0,
  crashes: 0,
  maxAttempts: 3,
  runAt: null,
  createdAt: at(0),
  startedAt: null,
  finishedAt: null,
  reason: null,
  error: null,
  worker: null,
  leasedUntil: null,
  cancelRequested: false,
  tags: [],
  idempotencyKey: null,
  after: [],
  onParentDead: 'cancel',
  schedule: null,
  payload: null,
  result: null,
  attempts: [],
  progress: null,
  logs: [],
  requeues: [],
  redacted: [],
}

const failed = (attempt: number, second: number) => ({
  attempt,
  worker: 'w',
  startedAt: at(second),
  finishedAt: at(second + 2),
  error,
})

describe('the history of a job', () => {
  test('a waiting job shows only its enqueue', () => {
    expect(timelineOf(job).map(({ title }) => title)).toEqual(['Enqueued'])
  })

  test('every failed attempt shows how long it ran and why it failed', () => {
    const retrying = {
      ...job,
      state: 'retrying' as const,
      attempt: 2,
      attempts: [failed(1, 1), failed(2, 10)],
      runAt: at(60),
    }

    const events = timelineOf(retrying)

    expect(events.map(({ title }) => title)).toEqual([
      'Enqueued',
      'Attempt 1 failed',
      'Attempt 2 failed',
      'Attempt 3 starts',
    ])
    expect(events[1]).toMatchObject({ ranMs: 2_000, worker: 'w', error })
    expect(events[3]!.atMs).toBe(Date.parse(at(60)))
  })

  test('a requeue is shown between the attempts before and after it', () => {
    const requeued = {
      ...job,
      state: 'dead' as const,
      reason: 'attempts' as const,
      attempt: 1,
      error,
      attempts: [failed(1, 1), failed(1, 30)],
      requeues: [{ number: 1, at: at(20), by: 'ada' }],
      finishedAt: at(32),
    }

    const events = timelineOf(requeued)

    expect(events.map(({ title }) => title)).toEqual([
      'Enqueued',
      'Attempt 1 failed',
      'Requeued by ada',
      'Attempt 1 failed',
      'Dead: no attempts left',
    ])
    expect(events[4]!.error).toBeNull()
  })

  test('an error that no attempt shows is shown with the death', () => {
    const crashed = { ...job, state: 'dead' as const, reason: 'crashed' as const, error, finishedAt: at(9) }

    expect(timelineOf(crashed).at(-1)!.error).toEqual(error)
  })

  test('success shows the attempt and how long it ran', () => {
    const done = { ...job, state: 'succeeded' as const, attempt: 1, startedAt: at(3), finishedAt: at(5), worker: 'w' }

    expect(timelineOf(done).at(-1)).toMatchObject({ title: 'Attempt 1 succeeded', ranMs: 2_000, worker: 'w' })
  })

  test('a job of a schedule names the schedule', () => {
    const tick = { ...job, schedule: { name: 'nightly', tick: at(0) } }

    expect(timelineOf(tick)[0]!.title).toBe('Enqueued by schedule nightly')
  })
})

test('every state has a time to show', () => {
  for (const state of JOB_STATES) expect(momentOf({ ...job, state }).word).not.toBe('')
})

describe('progress', () => {
  test.each([
    [null, null],
    [0.5, { share: 0.5, text: '50 %' }],
    [42, { share: 0.42, text: '42 %' }],
    [4_200, { share: null, text: '4200' }],
    ['halfway', { share: null, text: 'halfway' }],
    [
      { done: 3, total: 4 },
      { share: 0.75, text: '3 of 4' },
    ],
    [
      { done: 9, total: 4, message: 'more' },
      { share: 1, text: '9 of 4 · more' },
    ],
    [{ percent: 12.5 }, { share: 0.125, text: '12.5 %' }],
    [{ step: 'upload' }, { share: null, text: 'upload' }],
    [[1, 2], { share: null, text: '[1,2]' }],
  ])('%j is shown as %j', (value, shown) => {
    expect(readProgress(value)).toEqual(shown)
  })
})

test('masked paths are those of the part that is shown', () => {
  const redacted = ['payload.user.password', 'payload.cards.0.number', 'result.token', 'progress.token']

  expect([...maskedPaths(redacted, 'payload')]).toEqual(['user.password', 'cards.0.number'])
  expect([...maskedPaths(redacted, 'result')]).toEqual(['token'])
  expect([...maskedPaths(['payload'], 'payload')]).toEqual([''])
})
