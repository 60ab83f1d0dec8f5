import { afterEach, describe, expect, test } from 'vitest'
import { defineJob } from '../../src/client/define-job.js'
import { DropJob } from '../../src/core/definition.js'
import type { NewJob } from '../../src/core/job.js'
import { gate, whenAborted } from '../worker/stage.js'
import { readExposition, readValue } from './exposition.js'
import { type MetricsStage, openMetricsStage } from './stage.js'

const email = defineJob<{ readonly secret: string } | null>('send_email', {
  queue: 'email',
  retry: { backoff: 'fixed', base: '1s', jitter: false },
})
const NAMES = { queue: 'email', type: 'send_email' }

const stages: MetricsStage[] = []

async function open(...options: Parameters<typeof openMetricsStage>): Promise<MetricsStage> {
  const stage = await openMetricsStage(...options)
  stages.push(stage)
  return stage
}

afterEach(async () => {
  for (const { holdfast, metrics, clock } of stages.splice(0)) {
    metrics.close()
    const closing = holdfast.close()
    await clock.advance(60_000)
    await closing
  }
})

describe('what a process does', () => {
  test('enqueues move the rate by queue and type, and the time of their calls', async () => {
    const { holdfast, read } = await open()
    await holdfast.enqueue(email, null)
    await holdfast.enqueueMany(email, [null, null])
    await holdfast.enqueue(email, null, { idempotencyKey: 'k' })
    await holdfast.enqueue(email, null, { idempotencyKey: 'k' })

    expect(await read('holdfast_jobs_enqueued_total', NAMES)).toBe(4)
    expect(await read('holdfast_jobs_deduplicated_total', NAMES)).toBe(1)
    expect(await read('holdfast_enqueue_duration_seconds_count')).toBe(4)
  })

  test('a job that runs moves claims, in flight, utilisation, wait, run and settlements', async () => {
    const { holdfast, clock, read, metrics } = await open()
    const over = gate()
    await holdfast.enqueue(email, null)
    await clock.advance(2_000)
    await holdfast.worker({ concurrency: 4, handlers: [email.handle(() => over.promise)] }).start()
    await clock.advance(0)

    const during = await metrics.render()
    over.open()
    await clock.advance(0)

    expect(readValue(during, 'holdfast_jobs_in_flight', { queue: 'email' })).toBe(1)
    expect(readValue(during, 'holdfast_worker_slots')).toBe(4)
    expect(readValue(during, 'holdfast_worker_utilisation_ratio')).toBe(0.25)
    expect(await read('holdfast_jobs_in_flight', { queue: 'email' })).toBe(0)
    expect(await read('holdfast_worker_utilisation_ratio')).toBe(0)
    expect(await read('holdfast_jobs_claimed_total')).toBe(1)
    expect(await read('holdfast_claim_duration_seconds_count')).toBe(1)
    expect(await read('holdfast_claims_empty_total')).toBeGreaterThan(0)
    expect(await read('holdfast_job_wait_seconds_sum', { queue: 'email' })).toBe(2)
    expect(await read('holdfast_job_run_seconds_count', { type: 'send_email' })).toBe(1)
    expect(await read('holdfast_jobs_settled_total', { ...NAMES, state: 'succeeded' })).toBe(1)
  })

  test('retries count, and only the first attempt counts as waiting', async () => {
    const { holdfast, clock, read } = await open()
    let runs = 0
    const handler = email.handle(() => {
      if (++runs < 3) throw new Error('not yet')
    })
    await holdfast.enqueue(email, null)
    await holdfast.worker({ handlers: [handler] }).start()
    await clock.advance(5_000)

    expect(await read('holdfast_jobs_retried_total', NAMES)).toBe(2)
    expect(await read('holdfast_job_run_seconds_count', { type: 'send_email' })).toBe(3)
    expect(await read('holdfast_job_wait_seconds_count', { queue: 'email' })).toBe(1)
    expect(await read('holdfast_jobs_promoted_total')).toBe(2)
  })

  test('dead jobs count by reason, also those that a rescue found dead', async () => {
    const { holdfast, store, clock, read } = await open()
    const drop = defineJob('drop')
    const fail = defineJob('fail', { maxAttempts: 1 })
    const old = defineJob('old', { maxAge: '1s' })
    const handlers = [
      drop.handle(() => {
        throw new DropJob('no')
      }),
      fail.handle(() => {
        throw new Error('boom')
      }),
      old.handle(() => {}),
      defineJob('invalid', { input: refusing }).handle(() => {}),
    ]
    await holdfast.enqueueMany([
      [drop, null],
      [fail, null],
      [old, null],
      ['invalid', null],
    ])
    await clock.advance(2_000)
    await holdfast.worker({ handlers }).start()
    await crash(store, clock, await holdfast.enqueue('killer', null, { queue: 'elsewhere' }))

    for (const reason of ['dropped', 'attempts', 'expired', 'invalid', 'crashed']) {
      expect([reason, await read('holdfast_jobs_dead_total', { reason })]).toEqual([reason, 1])
    }
    expect(await read('holdfast_jobs_rescued_total', { queue: 'elsewhere', type: 'killer' })).toBe(3)
  })

  test('leases that are extended and lost, and handlers that do not stop, count', async () => {
    const { holdfast, store, clock, read } = await open()
    const stuck = defineJob('stuck', { timeout: '1s', maxAttempts: 1 })
    const never = gate()
    let lease = { id: '', fence: 0 }
    const handlers = [
      email.handle((_, { id, fence, signal }) => {
        lease = { id, fence }
        return whenAborted(signal)
      }),
      stuck.handle(() => never.promise),
    ]
    await holdfast.enqueue(email, null)
    await holdfast.enqueue(stuck, null)
    await holdfast.worker({ handlers }).start()
    await clock.advance(15_000)
    const settlement = { state: 'cancelled', attempt: 1, crashes: 0 } as const
    const nothing = { result: null, error: null, ranMs: null, idempotencyKey: null }
    await store.settle([{ ...lease, queue: 'email', settlement, ...nothing }])
    await clock.advance(15_000)

    expect(await read('holdfast_leases_extended_total')).toBeGreaterThan(0)
    expect(await read('holdfast_leases_lost_total', NAMES)).toBe(1)
    expect(await read('holdfast_jobs_stuck_total', { type: 'stuck' })).toBe(1)
  })

  test('schedules that fire and a store that fails count', async () => {
    const { holdfast, clock, fail, read } = await open()
    await holdfast.schedule('nightly', { cron: '* * * * *', job: email, payload: null })
    await clock.advance(120_000)
    fail('promote')
    await clock.advance(10_000)
    fail(null)

    expect(await read('holdfast_schedules_fired_total')).toBe(2)
    expect(await read('holdfast_store_failures_total')).toBeGreaterThan(0)
  })

  test('a blocked event loop shows as lag', async () => {
    const { metrics, read } = await open()
    await metrics.render()
    const turn = () => new Promise((resolve) => setImmediate(resolve))
    // The timer that measures must have begun before the loop is blocked, and fire after it.
    for (let turns = 0; turns < 3; turns++) {
      const untilMs = performance.now() + 60
      while (performance.now() < untilMs);
      await turn()
    }

    expect(await read('holdfast_event_loop_lag_seconds', { stat: 'max' })).toBeGreaterThan(0.02)
  })

  test('after close() nothing counts any more', async () => {
    const { holdfast, metrics, read } = await open()
    await holdfast.enqueue(email, null)
    metrics.close()
    await holdfast.enqueue(email, null)

    expect(await read('holdfast_jobs_enqueued_total')).toBe(1)
  })
})

describe('what the store says', () => {
  test('depth by state and queue, the oldest ready job, paused queues', async () => {
    const { holdfast, read } = await open()
    await holdfast.enqueueMany(email, [null, null])
    await holdfast.enqueue(email, null, { delay: '1h' })
    await holdfast.pause('email')

    expect(await read('holdfast_queue_jobs', { queue: 'email', state: 'ready' })).toBe(2)
    expect(await read('holdfast_queue_jobs', { queue: 'email', state: 'scheduled' })).toBe(1)
    expect(await read('holdfast_queue_oldest_ready_seconds', { queue: 'email' })).toBe(30)
    expect(await read('holdfast_queue_paused', { queue: 'email' })).toBe(1)
    expect(await read('holdfast_queue_workers', { queue: 'email' })).toBe(0)
    expect(await read('holdfast_store_up')).toBe(1)
  })

  test('workers and their heartbeats', async () => {
    const { holdfast, store, clock, read } = await open()
    await holdfast.enqueue(email, null)
    const beat = {
      host: 'h',
      pid: 1,
      queues: ['email'],
      running: 0,
      draining: false,
      version: '0',
      types: null,
      jobs: [],
      children: null,
    }
    await store.beat({ ...beat, id: 'gone', concurrency: 8 })
    await clock.advance(50_000)
    await holdfast.worker({ concurrency: 3, handlers: [email.handle(() => {})] }).start()

    expect(await read('holdfast_workers')).toBe(1)
    expect(await read('holdfast_queue_workers', { queue: 'email' })).toBe(1)
    expect(await read('holdfast_queue_slots', { queue: 'email' })).toBe(3)
    expect(await read('holdfast_worker_heartbeat_age_seconds')).toBe(90)
    await clock.advance(5 * 60_000)
    expect(await read('holdfast_worker_heartbeat_age_seconds')).toBeLessThan(20)
  })

  test('is asked for once in ten seconds, however often it is scraped', async () => {
    // Upkeep asks the store for its health too, in its own rhythm.
    const { metrics, clock, calls } = await open({}, { upkeep: false })
    for (let scrape = 0; scrape < 20; scrape++) await metrics.render()
    await Promise.all([metrics.render(), metrics.render()])
    const first = calls('overview')
    await clock.advance(9_999)
    await metrics.render()
    const second = calls('overview')
    await clock.advance(1)
    await Promise.all([metrics.render(), metrics.render()])

    expect([first, second, calls('overview'), calls('health')]).toEqual([1, 1, 2, 2])
  })

  test('is not shown while the store is away, and the scrape succeeds all the same', async () => {
    const { holdfast, fail, read } = await open()
    await holdfast.enqueue(email, null)
    const before = await read('holdfast_queue_jobs', { state: 'ready' })
    fail('overview')
    const away = [await read('holdfast_store_up'), await read('holdfast_queue_jobs')]
    fail(null)

    expect([before, away]).toEqual([1, [0, null]])
    expect(await read('holdfast_store_up')).toBe(1)
    expect(await read('holdfast_queue_jobs', { state: 'ready' })).toBe(1)
  })

  test('is left to others with store: false', async () => {
    const { metrics, calls } = await open({ store: false })
    const text = await metrics.render()

    expect(text).not.toContain('holdfast_queue_jobs')
    expect(calls('overview')).toBe(0)
  })
})

describe('the exposition', () => {
  test('is well formed, also with nothing in it, and has the type it says', async () => {
    const { metrics } = await open()

    const families = readExposition(await metrics.render())

    expect(metrics.contentType).toBe('text/plain; version=0.0.4; charset=utf-8')
    expect(families.length).toBeGreaterThan(30)
    expect(families.filter(({ name }) => !name.startsWith('holdfast_'))).toEqual([])
  })

  test('the reader finds what promtool would', () => {
    const bad = [
      '# HELP a_total x\n# TYPE a_total gauge\na_total 1\n',
      '# HELP a x\n# TYPE a gauge\na{b="1",b="2"} 1\n',
      '# HELP a x\n# TYPE a gauge\na{b="1"} 1\na{b="1"} 2\n',
      '# HELP a x\n# TYPE a gauge\na{b="\n"} 1\n',
      '# HELP a x\n# TYPE a gauge\na one\n',
      '# HELP a x\n# TYPE a gauge\nb 1\n',
      '# HELP a x\n# TYPE a gauge\na 1',
      '# HELP a x\n# TYPE a histogram\na_bucket{le="1"} 2\na_bucket{le="+Inf"} 1\na_sum 1\na_count 1\n',
    ]

    for (const text of bad) expect(() => readExposition(text), text).toThrow()
  })

  test('names beyond the bound are other, in every metric, and nothing is lost', async () => {
    const { holdfast, metrics, clock } = await open({ namesMax: 3, queues: ['vip'], types: ['vip'] })
    const jobs = Array.from({ length: 10 }, (_, at) => defineJob(`type${at}`, { queue: `queue${at}` }))
    for (const job of jobs) await holdfast.enqueue(job, null)
    await holdfast.enqueue('vip', null, { queue: 'vip' })
    await holdfast.worker({ handlers: jobs.map((job) => job.handle(() => {})) }).start()
    await clock.advance(10_000)

    const text = await metrics.render()

    const values = (label: string) =>
      new Set(readExposition(text).flatMap(({ samples }) => samples.flatMap(({ labels }) => labels[label] ?? [])))
    expect([...values('queue')].sort()).toEqual(['other', 'queue0', 'queue1', 'vip'])
    expect([...values('type')].sort()).toEqual(['other', 'type0', 'type1', 'vip'])
    expect(readValue(text, 'holdfast_jobs_settled_total')).toBe(10)
    expect(readValue(text, 'holdfast_jobs_settled_total', { queue: 'other', type: 'other' })).toBe(8)
    expect(readValue(text, 'holdfast_queue_jobs', { queue: 'vip', state: 'ready' })).toBe(1)
  })

  test('holds nothing of payloads, results, keys, tags and errors', async () => {
    const { holdfast, metrics, clock } = await open()
    const canary = 'canary-7f3a'
    const handler = email.handle((payload, ctx) => {
      ctx.log(canary)
      if (ctx.attempt === 1) throw new Error(`cannot send ${payload?.secret}`)
      return canary
    })
    await holdfast.enqueue(email, { secret: canary }, { tags: [canary], idempotencyKey: canary })
    await holdfast.worker({ handlers: [handler] }).start()
    await clock.advance(10_000)

    const text = await metrics.render()

    expect(readValue(text, 'holdfast_jobs_settled_total', { state: 'succeeded' })).toBe(1)
    expect(text).not.toContain(canary)
  })
})

test('options are checked when given', async () => {
  await expect(open({ cache: '1s' })).rejects.toMatchObject({ code: 'invalid_option' })
  await expect(open({ namesMax: 0 })).rejects.toMatchObject({ code: 'invalid_option' })
  await expect(open({ queues: ['no spaces'] })).rejects.toMatchObject({ code: 'invalid_name' })
  await expect(open({ prefix: 'x' } as never)).rejects.toMatchObject({ code: 'invalid_option' })
})

/** A schema nothing fits. */
const refusing = {
  '~standard': { version: 1, vendor: 'test', validate: () => ({ issues: [{ message: 'no' }] }) },
} as const

/** Claims a job as a worker that dies with it, until it is dead. */
async function crash(
  store: MetricsStage['store'],
  clock: MetricsStage['clock'],
  { id }: { readonly id: NewJob['id'] },
): Promise<void> {
  for (let crashes = 0; crashes < 3; crashes++) {
    const queues = [{ queue: 'elsewhere', limit: 1 }]
    const { jobs } = await store.claim({ queues, types: null, worker: 'ghost', leaseMs: 1_000 })
    await store.begin(jobs)
    await clock.advance(10 * 60_000)
  }
  expect(await store.get(id)).toMatchObject({ state: 'dead' })
}
