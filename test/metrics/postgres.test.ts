// The same metrics with a real worker on PostgreSQL: events from the heartbeat's thread, depths from tables.

import { afterAll, beforeAll, expect, test } from 'vitest'
import { defineJob } from '../../src/client/define-job.js'
import { connect } from '../../src/connect.js'
import { DropJob } from '../../src/core/definition.js'
import type { HoldfastEvent } from '../../src/core/events.js'
import type { Holdfast } from '../../src/holdfast.js'
import { createMetrics, type Metrics, serveMetrics } from '../../src/metrics/index.js'
import { dropSchema, testServerUrl } from '../support/postgres.js'
import { gate } from '../worker/stage.js'
import { readExposition, readValue } from './exposition.js'

const SCHEMA = 'metrics_test'
let holdfast: Holdfast
let metrics: Metrics

beforeAll(async () => {
  holdfast = await connect(testServerUrl(), { schema: SCHEMA })
  metrics = createMetrics(holdfast)
})

afterAll(async () => {
  metrics.close()
  await holdfast.close()
  await dropSchema(testServerUrl(), SCHEMA)
})

function heard(matches: (event: HoldfastEvent) => boolean): Promise<void> {
  return new Promise((resolve) => {
    const off = holdfast.on((event) => {
      if (!matches(event)) return
      off()
      resolve()
    })
  })
}

test('a worker on PostgreSQL moves every metric of a queue, and the server serves them', async () => {
  const good = defineJob('good', { queue: 'pg' })
  const bad = defineJob('bad', { queue: 'pg' })
  const flaky = defineJob('flaky', { queue: 'pg', retry: { backoff: 'fixed', base: '20ms', jitter: false } })
  const over = gate()
  const handlers = [
    good.handle(() => over.promise),
    bad.handle(() => {
      throw new DropJob('no')
    }),
    flaky.handle((_, { attempt }) => {
      if (attempt === 1) throw new Error('not yet')
    }),
  ]
  const { id } = await holdfast.enqueue(good, null)
  const waiting = [await holdfast.enqueue(bad, null), await holdfast.enqueue(flaky, null)]
  const extended = heard(({ name }) => name === 'lease.extended')
  await holdfast.worker({ handlers, concurrency: 8, lease: '20s', heartbeat: '500ms' }).start()
  await holdfast.wait(waiting[1]!.id)
  await holdfast.wait(waiting[0]!.id).catch(() => {})
  await extended
  await using server = await serveMetrics(metrics, { port: 0 })

  const response = await fetch(server.url)
  const text = await response.text()
  over.open()
  await holdfast.wait(id)

  const read = (name: string, labels = {}) => readValue(text, `holdfast_${name}`, labels)
  const pg = { queue: 'pg' }
  expect(response.headers.get('content-type')).toBe(metrics.contentType)
  expect(readExposition(text).length).toBeGreaterThan(30)
  expect(read('jobs_enqueued_total', pg)).toBe(3)
  expect(read('jobs_claimed_total')).toBe(4)
  expect(read('jobs_in_flight', pg)).toBe(1)
  expect(read('worker_utilisation_ratio')).toBe(1 / 8)
  expect(read('jobs_retried_total', { ...pg, type: 'flaky' })).toBe(1)
  expect(read('jobs_dead_total', { ...pg, reason: 'dropped' })).toBe(1)
  expect(read('leases_extended_total')).toBeGreaterThan(0)
  expect(read('claim_duration_seconds_count')).toBeGreaterThan(0)
  expect(read('enqueue_duration_seconds_count')).toBe(3)
  expect(read('queue_jobs', { ...pg, state: 'running' })).toBe(1)
  expect(read('queue_jobs', { ...pg, state: 'dead' })).toBe(1)
  expect(read('workers')).toBe(1)
  expect(read('store_up')).toBe(1)
  expect(read('database_bytes')).toBeGreaterThan(0)
  expect(read('database_dead_rows', { table: 'ready' })).toBeGreaterThanOrEqual(0)
})

test('the server answers nothing but the metrics', async () => {
  await using server = await serveMetrics(metrics, { port: 0 })

  const elsewhere = await fetch(new URL('/', server.url))
  const posted = await fetch(server.url, { method: 'POST' })

  expect([elsewhere.status, posted.status]).toEqual([404, 405])
  expect(server.url).toMatch(/^http:\/\/127\.0\.0\.1:/)
})
