// Workers and commands on Redis: the built program, a real server, processes that are killed.

import { spawnSync } from 'node:child_process'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { RedisServer } from '../../lab/servers/redis.js'
import { connect } from '../../src/connect.js'
import type { JobView } from '../../src/core/views.js'
import { openRedis } from '../support/redis.js'
import { makeProject, type Running, type RunOptions, run, start } from './support.js'

const JOBS = `
import { setTimeout as sleep } from 'node:timers/promises'
import { defineJob } from 'holdfast'
const fixed = { backoff: 'fixed', base: '10ms' }
export const handlers = [
  defineJob('quick').handle(() => 'done'),
  defineJob('flaky', { retry: fixed }).handle((_, { attempt }) => {
    if (attempt === 1) throw new Error('not yet')
    return 'done'
  }),
  defineJob('doomed', { maxAttempts: 1 }).handle(() => { throw new Error('never') }),
  defineJob('patient').handle((_, { attempt }) => (attempt === 1 ? sleep(60_000) : 'done')),
  defineJob('blocking').handle(() => {
    const endsAt = Date.now() + 4_000
    while (Date.now() < endsAt);
    return 'done'
  }),
]
`

let server: RedisServer
let at: RunOptions

beforeAll(async () => {
  server = await openRedis({ appendonly: 'yes' })
  at = { env: { HOLDFAST_URL: server.url } }
})
beforeEach(() => server.empty())
afterAll(() => server.close())

async function startWorker(...args: string[]): Promise<Running> {
  const cwd = await makeProject({ 'jobs.js': JOBS })
  const running = start(['worker', './jobs.js', '--log-level', 'debug', '--log-format', 'pretty', ...args], {
    ...at,
    cwd,
  })
  await running.line(/^worker \S+: 5 types/)
  return running
}

/** What a command prints with --json. */
async function json(...args: string[]): Promise<unknown> {
  const { code, stdout, stderr } = await run([...args, '--json'], at)
  if (code !== 0) throw new Error(stderr)
  return JSON.parse(stdout)
}

async function enqueue(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await run(['enqueue', ...args], at)
  if (code !== 0) throw new Error(stderr)
  return stdout.trim()
}

async function show(id: string): Promise<Pick<JobView, 'state' | 'attempt' | 'result'>> {
  return ((await json('jobs', 'show', id)) as { job: JobView }).job
}

describe('a worker on Redis', () => {
  test('runs jobs, retries those that fail, and keeps those that died', { timeout: 60_000 }, async () => {
    await startWorker()

    const [quick, flaky, doomed] = [await enqueue('quick'), await enqueue('flaky'), await enqueue('doomed')]

    await expect.poll(async () => (await show(doomed)).state, { timeout: 20_000 }).toBe('dead')
    await expect.poll(async () => show(flaky), { timeout: 20_000 }).toMatchObject({ state: 'succeeded', attempt: 2 })
    expect(await show(quick)).toMatchObject({ state: 'succeeded', result: 'done' })
  })

  test('that blocks its event loop keeps its lease: a thread extends it', { timeout: 60_000 }, async () => {
    await startWorker('--visibility-timeout', '2s')

    const id = await enqueue('blocking')

    await expect.poll(async () => (await show(id)).state, { timeout: 30_000 }).toBe('succeeded')
    expect((await show(id)).attempt).toBe(1)
  })

  test('that is killed loses no job: another one runs it', { timeout: 90_000 }, async () => {
    const first = await startWorker('--visibility-timeout', '2s')
    const id = await enqueue('patient')
    await expect.poll(async () => (await show(id)).state, { timeout: 20_000 }).toBe('running')

    process.kill(first.pid, 'SIGKILL')
    await startWorker('--visibility-timeout', '2s')

    await expect.poll(async () => (await show(id)).state, { timeout: 60_000 }).toBe('succeeded')
  })

  test('that is killed gives back the slots of its limit and its group', { timeout: 90_000 }, async () => {
    const holdfast = await connect(server.url)
    await holdfast.setLimit('api', { concurrency: 2 })
    await holdfast.setQueue('default', { groups: { concurrency: 1 } })
    await holdfast.close()
    const first = await startWorker('--visibility-timeout', '2s')
    const groups = ['a', 'a', 'b', 'b', 'c', 'c']
    const ids = await Promise.all(groups.map((group) => enqueue('patient', '--group', group, '--limit', 'api')))
    const runningOf = async () =>
      ((await json('limits', 'list')) as { limits: { running: number }[] }).limits[0]!.running
    await expect.poll(runningOf, { timeout: 20_000 }).toBe(2)

    process.kill(first.pid, 'SIGKILL')
    // Each attempt after the first ends immediately. Jobs that only now get their first one would sleep.
    await run(['jobs', 'cancel', ...(await waiting(ids))], at)
    await startWorker('--visibility-timeout', '2s')

    const statesOf = async () => (await Promise.all(ids.map(async (id) => (await show(id)).state))).sort()
    const ended = ['cancelled', 'cancelled', 'cancelled', 'cancelled', 'succeeded', 'succeeded']
    await expect.poll(statesOf, { timeout: 60_000, interval: 500 }).toEqual(ended)
    expect(await runningOf()).toBe(0)
  })
})

async function waiting(ids: readonly string[]): Promise<string[]> {
  const states = await Promise.all(ids.map(async (id) => ({ id, state: (await show(id)).state })))
  return states.filter(({ state }) => state === 'ready').map(({ id }) => id)
}

describe('commands on Redis', () => {
  test('look, pause, cancel and check', { timeout: 90_000 }, async () => {
    const holdfast = await connect(server.url)
    await holdfast.close()
    const id = await enqueue('quick', '--delay', '1h')

    expect(await json('stats')).toMatchObject({ queues: [{ name: 'default', scheduled: 1 }] })
    expect((await run(['jobs', 'list'], at)).stdout).toContain('scheduled')
    expect((await run(['queues', 'pause', 'default'], at)).code).toBe(0)
    expect((await run(['jobs', 'cancel', id], at)).code).toBe(0)
    expect((await show(id)).state).toBe('cancelled')
    const doctor = await run(['doctor'], at)
    expect(doctor.stdout).toMatch(/append-only file\s+on, appendfsync everysec/)
    expect(doctor.code).toBe(0)
  })

  test('do not make a store where there is none', async () => {
    const { code, stderr } = await run(['stats'], at)

    expect(code).not.toBe(0)
    expect(stderr).toContain('there is no Holdfast store')
    expect(spawnSync('redis-cli', ['-p', String(server.port), 'dbsize'], { encoding: 'utf8' }).stdout.trim()).toBe('0')
  })
})
