// Bulk actions over HTTP: an action on every job must be asked for explicitly, by every caller.

import { afterAll, beforeAll, expect, test } from 'vitest'
import { finish } from '../client/support.js'
import { TestServer } from './support.js'

let server: TestServer

beforeAll(async () => {
  server = await TestServer.open()
  for (let index = 0; index < 3; index++) {
    await server.holdfast.enqueue('x', null, { queue: 'mail' })
    await finish(server.store, 'mail', { state: 'dead', error: new Error('gone') })
  }
  await server.holdfast.enqueue('x', null, { queue: 'mail' })
})

afterAll(() => server.close())

const EMPTY = [{ filter: '' }, { filter: {} }, { filter: 'queue:*' }]

test.each(EMPTY)('POST /v1/bulk with $filter does nothing unless it says that every job is meant', async (body) => {
  const narrow = await server.key(['read', 'operate'], ['mail'])
  const ask = (said: object) => server.admin('POST', '/v1/bulk', { body: { action: 'cancel', ...body, ...said } })
  const before = (await server.holdfast.bulks()).length

  const refused = await ask({})
  const narrowed = await server.as(narrow, 'POST', '/v1/bulk', { body: { action: 'cancel', ...body } })

  for (const { status, json } of [refused, narrowed]) {
    expect([status, json.code]).toEqual([400, 'invalid_option'])
    expect(json.detail).toContain('all: true')
  }
  expect((await server.holdfast.bulks()).length).toBe(before)
  expect((await ask({ dryRun: true })).json).toMatchObject({ can: 1 })
  expect((await ask({ all: true })).status).toBe(202)
  expect((await ask({ expected: 1 })).status).toBe(202)
})

test('the dead letters are not all requeued because a filter was forgotten', async () => {
  const ask = (body: object) => server.admin('POST', '/v1/dlq/requeue', { body })

  expect((await ask({})).status).toBe(400)
  expect((await ask({ filter: '' })).status).toBe(400)
  expect((await ask({ dryRun: true })).json).toMatchObject({ can: 3 })
  expect((await ask({ expected: 2 })).json).toMatchObject({ status: 409, code: 'wrong_state', expected: 2, matches: 3 })
  expect((await ask({ expected: 3 })).json).toMatchObject({ limit: 3 })
  expect((await ask({ fingerprint: 'abc' })).status).toBe(202)
  expect((await ask({ all: true })).status).toBe(202)
})
