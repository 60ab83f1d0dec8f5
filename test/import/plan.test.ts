// What becomes of a job of another queue, without a server: names, priorities, times, attempts, keys, and lines of a crontab.

import { describe, expect, test } from 'vitest'
import { idTimeMs } from '../../src/core/id.js'
import { readJob, readScheduler } from '../../src/import/bullmq-job.js'
import type { OldJob, Planned } from '../../src/import/contract.js'
import { readCrontab } from '../../src/import/crontab.js'
import { type PlanTerms, planJob } from '../../src/import/plan.js'

const NOW_MS = Date.UTC(2026, 10, 19, 12)
const TERMS: PlanTerms = {
  source: 'pg-boss:pgboss',
  types: new Map(),
  queues: new Map(),
  failed: 'dead',
  mark: (id) => id,
}
const OLD: OldJob = {
  ...{ key: '7', id: '7', kind: 'waiting', type: 'send_mail', queue: 'mail', payload: '{"to":"ada"}', priority: 0 },
  ...{
    runAtMs: null,
    attemptsMade: 0,
    maxAttempts: 3,
    retry: null,
    timeoutMs: null,
    idempotencyKey: null,
    group: null,
  },
  ...{ tags: [], trace: null, error: null, lacks: [] },
}

function plan(
  changes: Partial<OldJob>,
  terms: Partial<PlanTerms> = {},
): Planned & { readonly lacks: readonly string[] } {
  const made = planJob({ ...OLD, ...changes }, { ...TERMS, ...terms }, NOW_MS, NOW_MS)
  if ('skip' in made) throw new Error(made.skip)
  return { ...made.planned, lacks: made.lacks }
}

function skipped(changes: Partial<OldJob>): string | null {
  const made = planJob({ ...OLD, ...changes }, TERMS, NOW_MS, NOW_MS)
  return 'skip' in made ? made.skip : null
}

describe('the plan of an imported job', () => {
  test('its id is a UUIDv7 of the time of the taking, the same each time, and another for another job or queue', () => {
    const { id } = plan({}).job

    expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
    expect(idTimeMs(id)).toBe(NOW_MS)
    expect(plan({}).job.id).toBe(id)
    expect(new Set([id, plan({ key: '8' }).job.id, plan({ queue: 'other' }).job.id]).size).toBe(3)
  })

  test('a priority beyond what Holdfast has is cut, and named', () => {
    const { job, lacks } = plan({ priority: -2_097_152 })

    expect(job.priority).toBe(-32_768)
    expect(lacks[0]).toContain('cut')
  })

  test('only a time that has not come is kept', () => {
    expect(plan({ kind: 'delayed', runAtMs: NOW_MS + 5 }).job.when).toEqual({ runAtMs: NOW_MS + 5 })
    expect(plan({ kind: 'delayed', runAtMs: NOW_MS - 5 }).job.when).toBeNull()
  })

  test('attempts that were used are used, and one is left at least', () => {
    expect(plan({ attemptsMade: 2 }).job.limits.maxAttempts).toBe(1)
    expect(plan({ attemptsMade: 9 }).job.limits.maxAttempts).toBe(1)
  })

  test('a failed job is to be buried with its error, or requeued with all of its attempts', () => {
    const failed = { kind: 'failed', attemptsMade: 3, error: { name: 'Error', message: 'no' } } as const

    expect(plan(failed).death).toEqual({ attempt: 3, error: { name: 'Error', message: 'no' } })
    const requeued = plan(failed, { failed: 'requeue' })
    expect(requeued.death).toBeNull()
    expect(requeued.job).toMatchObject({ when: null, limits: { maxAttempts: 3 } })
  })

  test('a key that Holdfast cannot have is left out, and named', () => {
    const { job, lacks } = plan({ idempotencyKey: 'k'.repeat(201) })

    expect(job.idempotencyKey).toBeNull()
    expect(lacks[0]).toContain('key')
  })

  test.each([
    [{ type: 'send mail' }, /"send mail" cannot name a type: give --map 'send mail=…'/],
    [{ queue: '' }, /cannot name a queue: give --map-queue/],
    [{ payload: '{' }, /no JSON/],
    [{ payload: JSON.stringify('x'.repeat(1024 * 1024)) }, /larger than 1048576 bytes/],
    [{ payload: `${'['.repeat(501)}${']'.repeat(501)}` }, /nested deeper than 500/],
    [{ runAtMs: 1e16 }, /beyond the year 9999/],
  ])('%j stays where it is', (changes, why) => {
    expect(skipped(changes)).toMatch(why)
  })

  test('other names for types and queues hold', () => {
    const { job } = plan(
      { type: 'send mail' },
      { types: new Map([['send mail', 'send']]), queues: new Map([['mail', 'post']]) },
    )

    expect(job).toMatchObject({ type: 'send', queue: 'post' })
  })
})

describe('a job of BullMQ', () => {
  const place = { queue: 'mail', id: '1', place: 'wait', score: '' }
  const fields = (opts: object, more: object = {}) => ({
    name: 'send',
    data: '{}',
    timestamp: '5',
    opts: JSON.stringify(opts),
    ...more,
  })

  test('1 is its most urgent priority, and none comes before it', () => {
    expect(readJob(place, fields({ priority: 1 }, { priority: '1' })).priority).toBe(-1)
    expect(readJob(place, fields({})).priority).toBe(0)
  })

  test('without backoff it is tried again without a wait, and exponential waits go on where they stood', () => {
    expect(readJob(place, fields({ attempts: 3 })).retry).toMatchObject({ backoff: 'fixed', baseMs: 0 })
    const retry = readJob(
      place,
      fields({ attempts: 9, backoff: { type: 'exponential', delay: 100 } }, { atm: '3' }),
    ).retry
    expect(retry).toMatchObject({ backoff: 'exponential', baseMs: 800, jitter: false })
  })

  test('its time is in the score of a delayed job, its key the id of its deduplication or its own', () => {
    const delayed = { ...place, place: 'delayed', score: String(NOW_MS * 4_096 + 7) }

    expect(readJob(delayed, fields({}))).toMatchObject({ kind: 'delayed', runAtMs: NOW_MS })
    expect(readJob(place, fields({ jobId: 'order-1' })).idempotencyKey).toBe('order-1')
    expect(readJob(place, fields({ jobId: 'order-1' }, { deid: 'd' })).idempotencyKey).toBe('d')
  })

  test('options without counterpart are named', () => {
    const opts = { lifo: true, removeOnComplete: true, backoff: { type: 'mine' } }

    expect(readJob(place, fields(opts)).lacks).toHaveLength(3)
    expect(readJob(place, fields(opts)).retry).toBeNull()
  })

  test('fields that cannot be read raise nothing', () => {
    expect(readJob(place, { opts: '{', stacktrace: '{', timestamp: '5' })).toMatchObject({
      type: 'mail',
      maxAttempts: 1,
    })
    expect(readScheduler('mail', 'old', 'x', {}).problem).toContain('older BullMQ')
  })
})

describe('a crontab of graphile-worker', () => {
  test('a line is a schedule with its options', () => {
    const [line] = readCrontab(
      '# nightly\n0 3 * * 1-5 report ?id=nightly&max=3&priority=-2&fill=1d {"a":1}\n',
      'default',
    )

    expect(line).toMatchObject({
      ...{
        name: 'nightly',
        type: 'report',
        payload: '{"a":1}',
        priority: 2,
        maxAttempts: 3,
        catchUp: 'all',
        problem: null,
      },
      when: { cron: '0 3 * * 1-5' },
    })
  })

  test('a line that cannot be read is one with a problem, and names its number', () => {
    const lines = readCrontab("@daily report\n0 3 * * * report {a: 'b'}", 'default')

    expect(lines.map(({ problem }) => problem)).toEqual([
      'line 1 of the crontab cannot be read',
      'the payload in line 2 of the crontab is no JSON',
    ])
  })
})
