// Middleware around handlers in children: what their module exports, as a function of the worker's process cannot be sent to them.

import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { WorkerProcess } from '../support/processes.js'
import { childPids, HostStage } from './stage.js'

const module = fileURLToPath(new URL('../fixtures/middleware-jobs.mjs', import.meta.url))

let stage: HostStage
let host: WorkerProcess
beforeAll(async () => {
  stage = await HostStage.open()
  const types = ['apart', 'threaded', 'quick']
  host = await stage.start({ use: true, module, types, worker: { processes: undefined } })
})
afterAll(() => stage.close())

describe.each([
  ['a process', 'apart'],
  ['a thread', 'threaded'],
])('a handler in %s', (_, type) => {
  test('runs inside of what its module exports as middleware, the first one outermost, and of nothing else', async () => {
    const { id } = await stage.holdfast.enqueue(type, { facts: true })

    const result = (await stage.holdfast.wait(id, { timeout: '20s' })) as { outer: number }

    expect(result).toEqual({ outer: expect.any(Number), id, inner: { inner: expect.objectContaining({ id, type }) } })
    expect(type === 'threaded' ? [host.pid] : childPids(host)).toContain(result.outer)
  })

  test('fails when a middleware throws, and a middleware sees what the handler threw', async () => {
    const refused = await stage.holdfast.enqueue(type, { refuse: true }, { maxAttempts: 1 })
    const dropped = await stage.holdfast.enqueue(type, { throw: 'drop' })

    for (const handle of [refused, dropped]) {
      await expect(handle.wait({ timeout: '20s' })).rejects.toMatchObject({ code: 'job_dead' })
    }
    const jobs = await Promise.all([refused, dropped].map(({ id }) => stage.holdfast.get(id)))

    expect(jobs).toMatchObject([
      { reason: 'attempts', error: { message: `refused ${type}` } },
      { reason: 'dropped', error: { message: 'outer saw: not wanted any more' } },
    ])
  })
})

test('a handler in the process of the same worker runs inside of what use() was given, and not of what the module exports', async () => {
  const { id } = await stage.holdfast.enqueue('quick', { facts: true })

  const result = await stage.holdfast.wait(id, { timeout: '20s' })

  expect(result).toEqual({ worker: host.pid, inner: expect.objectContaining({ id, pid: host.pid }) })
})

test.each([
  [
    'use({ run }) and a module without middleware',
    { use: true },
    /exports no middleware.*use\(\{ run \}\).*export const middleware/,
  ],
  [
    'a module whose middleware is none',
    { module, env: { HOLDFAST_TEST_MIDDLEWARE: 'broken' } },
    /middleware of .*: run must be a function, got 7/,
  ],
])(
  '%s: the worker does not start and says what to do',
  async (_, config, text) => {
    const failed = stage.launch({ types: ['work'], ...config })

    const report = await failed.next(({ what }) => what === 'failed')

    expect(report).toMatchObject({ reason: 'module_failed', text: expect.stringMatching(text) })
  },
  60_000,
)
