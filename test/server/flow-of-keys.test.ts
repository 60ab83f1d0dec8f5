// What a key for some queues sees and changes of limits and groups, which others may share.

import { afterAll, beforeAll, expect, test } from 'vitest'
import { dead } from '../../src/testing/store-suite/samples.js'
import { type Answered, TestServer } from './support.js'

let server: TestServer
let key: string

beforeAll(async () => {
  server = await TestServer.open()
  const { holdfast } = server
  for (const name of ['shared', 'theirs', 'unused']) {
    await holdfast.setLimit(name, { concurrency: 20, rate: '100/s', breaker: {} })
  }
  await holdfast.setQueue('mine', { concurrency: 4, groups: { ordered: true, onDead: 'stop' } })
  await holdfast.setQueue('theirs', { concurrency: 4, groups: { ordered: true, onDead: 'stop' } })
  await holdfast.enqueue('x', null, { queue: 'mine', group: 'a', limits: ['shared'] })
  await holdfast.enqueue('x', null, { queue: 'theirs', group: 'b', limits: ['shared', 'theirs'] })
  key = await server.key(['read', 'enqueue', 'operate', 'admin'], ['mine'])
})

afterAll(() => server.close())

const as = (method: string, path: string, body: unknown = {}) => server.as(key, method, path, { body })
const refusal = ({ status, json }: Answered) => [status, json.code]

test('it sees the limits that jobs of its queues name, and those of its queues', async () => {
  const { json } = await as('GET', '/v1/limits')

  expect(json.limits.map(({ name }: { name: string }) => name)).toEqual(['queue:mine', 'shared'])
  expect((await as('GET', '/v1/limits?prefix=t')).json).toEqual({ limits: [], cursor: null })
})

test('it does not see how much others run, nor that they are there', async () => {
  await server.holdfast.openBreaker('shared', { by: 'grace-of-ops' })

  const { json } = await as('GET', '/v1/limits/shared')

  expect(json).toMatchObject({ concurrency: 20, running: null, tokens: null, breaker: { ok: null, failed: null } })
  expect(json.breaker).toMatchObject({ position: 'open', forced: 'open' })
  expect(json.users).toEqual([{ queue: 'mine', limits: ['shared'], ready: 1 }])
  expect(JSON.stringify(json)).not.toContain('grace')
  expect((await as('GET', '/v1/limits/queue:mine')).json).toMatchObject({ running: 0, concurrency: 4 })
  await server.holdfast.releaseBreaker('shared')
})

test("another's limit is answered as one that does not exist", async () => {
  const withoutName = ({ status, json }: Answered) => {
    const { requestId: _one, instance: _two, name, ...said } = json
    return [status, JSON.stringify(said).replaceAll(name, 'X')]
  }

  const missing = withoutName(await as('GET', '/v1/limits/absent'))

  expect(missing[0]).toBe(404)
  for (const name of ['theirs', 'unused', 'queue:theirs']) {
    expect(withoutName(await as('GET', `/v1/limits/${name}`))).toEqual(missing)
  }
})

test('it changes no limit, because others share it', async () => {
  for (const name of ['shared', 'theirs', 'absent', 'queue:mine']) {
    expect(refusal(await as('PUT', `/v1/limits/${name}`))).toEqual([403, 'forbidden'])
    expect(refusal(await as('DELETE', `/v1/limits/${name}`))).toEqual([403, 'forbidden'])
    for (const verb of ['open', 'close', 'release']) {
      expect(refusal(await as('POST', `/v1/limits/${name}/${verb}`))).toEqual([403, 'forbidden'])
    }
  }
  expect((await server.holdfast.limits()).find(({ name }) => name === 'shared')?.breaker?.forced).toBeNull()
})

test('it names only limits that jobs of its queues name already; another is unknown to it, whether it exists or not', async () => {
  const job = (limits: readonly string[]) => ({ type: 'x', queue: 'mine', limits })
  const schedule = (limits: readonly string[]) => ({ cron: '0 0 * * *', type: 'x', queue: 'mine', limits })
  const { json: own } = await as('POST', '/v1/jobs', job(['shared']))

  expect(own.created).toBe(true)
  for (const name of ['theirs', 'unused', 'absent', 'type:x']) {
    for (const answered of [
      await as('POST', '/v1/jobs', job(['shared', name])),
      await as('POST', '/v1/jobs/batch', { jobs: [job([]), job([name])] }),
      await as('POST', `/v1/jobs/${own.id}/clone`, { limits: [name] }),
      await as('PUT', '/v1/schedules/mine:1', schedule([name])),
    ]) {
      expect(refusal(answered)).toEqual([422, 'limit_unknown'])
      expect(answered.json.detail).toBe(
        `limit "${name}" is not known to read enqueue operate admin: a key limited to some queues may name the limits that jobs of these queues name already`,
      )
    }
  }
})

test('it sees and changes groups of its queues alone', async () => {
  expect((await as('GET', '/v1/queues/mine/groups')).json.groups).toMatchObject([{ group: 'a' }])
  expect((await as('PUT', '/v1/queues/mine/groups/a', { weight: 2 })).status).toBe(200)
  for (const [method, path] of [
    ['GET', '/v1/queues/theirs/groups'],
    ['PUT', '/v1/queues/theirs/groups/b'],
    ['DELETE', '/v1/queues/theirs/groups/b'],
    ['POST', '/v1/queues/theirs/groups/b/pause'],
    ['POST', '/v1/queues/theirs/groups/b/resume'],
  ] as const) {
    expect([path, ...refusal(await as(method, path))]).toEqual([path, 403, 'forbidden'])
  }
  expect((await server.holdfast.groups('theirs')).groups).toMatchObject([{ group: 'b', paused: false, override: null }])
})

test("another's job shows no flow control", async () => {
  const { id } = await server.holdfast.enqueue('x', null, { queue: 'theirs', group: 'b' })

  expect(refusal(await as('GET', `/v1/jobs/${id}/flow`))).toEqual([404, 'job_not_found'])
})

test('it is warned of stopped groups of its queues, and of no breaker', async () => {
  for (const queue of ['mine', 'theirs']) {
    const claim = { queues: [{ queue, limit: 10 }], types: null, worker: 'w', leaseMs: 30_000 }
    const { jobs } = await server.store.claim(claim)
    await server.store.settle([dead(jobs.find(({ flow }) => flow?.group != null)!)])
  }
  await server.holdfast.openBreaker('shared')

  const codes = async (answered: Promise<Answered>) =>
    (await answered).json.warnings
      .map(({ code, queue }: { code: string; queue: string | null }) => `${code} ${queue}`)
      .filter((text: string) => /group|breaker/.test(text))

  expect(await codes(as('GET', '/v1/warnings'))).toEqual(['group_stopped mine'])
  expect(await codes(server.admin('GET', '/v1/warnings'))).toEqual([
    'group_stopped mine',
    'group_stopped theirs',
    'breaker_forced null',
  ])
})
