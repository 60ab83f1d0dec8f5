// A key for some queues sees and touches those alone; what is elsewhere is to it as if it did not exist.

import { afterAll, beforeAll, expect, test } from 'vitest'
import { finish } from '../client/support.js'
import { TestServer } from './support.js'

let server: TestServer
let mine: string
let theirs: string
let deadOfTheirs: string
let key: string

beforeAll(async () => {
  server = await TestServer.open()
  mine = (await server.holdfast.enqueue('x', 1, { queue: 'mine' })).id
  await server.holdfast.enqueue('x', 2, { queue: 'theirs' })
  deadOfTheirs = await finish(server.store, 'theirs', { state: 'dead', error: new Error('gone') })
  theirs = (await server.holdfast.enqueue('x', 3, { queue: 'theirs' })).id
  await server.holdfast.schedule('mine', { cron: '0 0 * * *', job: 'x', queue: 'mine' })
  await server.holdfast.schedule('theirs', { cron: '0 0 * * *', job: 'x', queue: 'theirs' })
  key = await server.key(['read', 'read:payload', 'enqueue', 'operate', 'admin'], ['mine'])
})

afterAll(() => server.close())

const get = (path: string) => server.as(key, 'GET', path)
const post = (path: string, body: unknown = {}) => server.as(key, 'POST', path, { body })

test('a job of another queue is answered as one that does not exist', async () => {
  const absent = '00000000-0000-7000-8000-000000000000'
  const requests = [
    ['GET', ''],
    ['GET', '/payload'],
    ['GET', '/explain'],
    ['POST', '/cancel'],
    ['POST', '/requeue'],
    ['POST', '/discard'],
    ['POST', '/run'],
    ['POST', '/clone'],
    ['PATCH', ''],
    ['DELETE', ''],
  ] as const

  for (const [method, verb] of requests) {
    const body = method === 'GET' || method === 'DELETE' ? {} : { body: method === 'PATCH' ? { priority: 1 } : {} }
    const foreign = await server.as(key, method, `/v1/jobs/${theirs}${verb}`, body)
    const missing = await server.as(key, method, `/v1/jobs/${absent}${verb}`, body)

    const { requestId: _one, instance: _two, ...said } = foreign.json
    const { requestId: _three, instance: _four, ...saidOfNone } = missing.json
    expect([foreign.status, said.code]).toEqual([404, 'job_not_found'])
    expect(JSON.stringify(said).replaceAll(theirs, absent)).toBe(JSON.stringify(saidOfNone))
  }
  expect((await post(`/dlq/${deadOfTheirs}/requeue`)).status).toBe(404)
  expect((await server.holdfast.get(theirs))!.state).toBe('ready')
})

test('lists, counts and overviews show only its own queues', async () => {
  const jobs = async (filter: string) =>
    (await get(`/v1/jobs?filter=${encodeURIComponent(filter)}`)).json.jobs.map(({ id }: { id: string }) => id)

  expect(await jobs('')).toEqual([mine])
  expect(await jobs('queue:theirs')).toEqual([])
  expect(await jobs('queue:*')).toEqual([mine])
  expect(await jobs(`id:${theirs}`)).toEqual([])
  expect((await get('/v1/jobs/count?filter=state:ready')).json).toEqual({ count: 1, exact: true })
  expect((await get('/v1/queues')).json.queues.map(({ name }: { name: string }) => name)).toEqual(['mine'])
  expect((await get('/v1/schedules')).json.schedules.map(({ name }: { name: string }) => name)).toEqual(['mine'])
  const warnings = (await get('/v1/warnings')).json.warnings
  expect(warnings.every(({ queue }: { queue: string }) => queue === 'mine')).toBe(true)
})

test('what is about all queues, or about others, is refused', async () => {
  const looks = [
    '/stats',
    '/stats?queue=theirs',
    '/v1/series',
    '/v1/series?queue=theirs',
    '/v1/dlq/groups',
    '/v1/audit',
    '/v1/keys',
    '/metrics',
  ]
  for (const path of looks) expect([path, (await get(path)).status]).toEqual([path, 403])
  expect((await get('/v1/queues/theirs')).status).toBe(404)
  expect((await get('/stats?queue=mine')).json).toMatchObject({ queue: 'mine', ready: 1 })

  expect((await post('/v1/jobs', { type: 'x', queue: 'theirs' })).status).toBe(403)
  expect((await post('/v1/jobs', { type: 'x' })).status).toBe(403)
  expect(
    (
      await post('/v1/jobs/batch', {
        jobs: [
          { type: 'x', queue: 'mine' },
          { type: 'x', queue: 'theirs' },
        ],
      })
    ).status,
  ).toBe(403)
  expect((await post(`/v1/jobs/${mine}/clone`, { queue: 'theirs' })).status).toBe(403)
  expect((await post('/v1/queues/theirs/pause')).status).toBe(403)
  expect((await post('/v1/schedules/theirs/run')).status).toBe(404)
  const take = { cron: '0 0 * * *', type: 'x', queue: 'mine' }
  expect((await server.as(key, 'PUT', '/v1/schedules/theirs', { body: take })).status).toBe(403)
  expect((await post('/v1/keys', { name: 'more', scopes: ['admin'] })).status).toBe(403)
})

test('a bulk action is limited to its queues', async () => {
  const { json: wide } = await server.admin('POST', '/v1/bulk', { body: { action: 'cancel', filter: 'queue:theirs' } })

  const { json: dry } = await post('/v1/bulk', { action: 'cancel', filter: '', dryRun: true })
  const { json: own } = await post('/v1/bulk', { action: 'cancel', filter: 'queue:*', all: true })

  expect(dry).toEqual({ matches: 1, can: 1, exact: true })
  expect(own.filter).toContain('queue:mine')
  expect((await get('/v1/bulk')).json.bulks.map(({ id }: { id: string }) => id)).toEqual([own.id])
  expect((await get(`/v1/bulk/${wide.id}`)).status).toBe(404)
  expect((await post(`/v1/bulk/${wide.id}/cancel`)).status).toBe(404)
})

test('a key creates at most a hundred schedules; it can still change them, and others create theirs', async () => {
  const [one, two] = [
    await server.key(['operate', 'enqueue', 'admin'], ['mine']),
    await server.key(['operate', 'enqueue'], ['mine']),
  ]
  const put = (who: string, name: string, cron = '0 0 * * *') =>
    server.as(who, 'PUT', `/v1/schedules/mine:${name}`, { body: { cron, type: 'x', queue: 'mine' } })
  for (let index = 0; index < 100; index++) expect((await put(one, `made-${index}`)).status).toBe(200)

  const refused = await put(one, 'made-100')

  expect([refused.status, refused.json.code]).toEqual([409, 'too_many_schedules'])
  expect(refused.json.detail).toContain('100 schedules')
  expect((await put(one, 'made-7', '1 0 * * *')).status).toBe(200)
  expect((await put(two, 'made-100')).status).toBe(200)
})

test('a key limited to some queues cannot change the retention, which applies to all queues', async () => {
  const patch = (body: unknown, who = key) => server.as(who, 'PATCH', '/v1/queues/mine', { body })
  const settings = async () => (await server.holdfast.queues()).find(({ name }) => name === 'mine')!.settings

  const refused = await patch({ retention: '3650d' })
  const shorter = await patch({ retention: '1h' })

  expect([refused.status, refused.json.code, shorter.status]).toEqual([403, 'forbidden', 403])
  expect(refused.json.detail).toMatch(/retention.*all queues/)
  expect((await patch({ maxAttempts: 3 })).status).toBe(200)
  expect(await settings()).toEqual({ limits: { maxAttempts: 3 } })

  // One that was set by who may stays, whether it is sent along or left out.
  await server.holdfast.setQueue('mine', { retention: '30d' })
  expect((await patch({ maxAttempts: 4 })).status).toBe(200)
  expect((await patch({ maxAttempts: 5, retention: '30d' })).status).toBe(200)
  expect(await settings()).toEqual({ limits: { maxAttempts: 5 }, retentionMs: 30 * 86_400_000 })
  expect((await patch({ retention: '31d' })).status).toBe(403)
  expect((await patch({ retention: '40d' }, await server.key(['operate']))).status).toBe(200)
})

test('a key limited to some queues cannot remove one that has a retention', async () => {
  const ownKey = await server.key(['operate', 'enqueue'], ['kept-long', 'kept-short'])
  await server.holdfast.setQueue('kept-long', { retention: '30d' })
  await server.holdfast.setQueue('kept-short', { maxAttempts: 3 })

  const refused = await server.as(ownKey, 'DELETE', '/v1/queues/kept-long')

  expect([refused.status, refused.json.code]).toEqual([403, 'forbidden'])
  expect(refused.json.detail).toMatch(/retention.*all queues/)
  expect((await server.as(ownKey, 'DELETE', '/v1/queues/kept-short')).status).toBe(204)
})
