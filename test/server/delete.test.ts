// Deleting jobs over HTTP takes a scope of its own.

import { afterAll, beforeAll, expect, test } from 'vitest'
import { TestServer } from './support.js'

let server: TestServer

beforeAll(async () => {
  server = await TestServer.open()
})

afterAll(() => server.close())

test('a key with the scope deletes a job of its queues; who may only operate does not', async () => {
  const { id } = await server.holdfast.enqueue('x', { to: 'ada' }, { queue: 'mail' })
  const [operator, deleter] = [await server.key(['read', 'operate']), await server.key(['delete'], ['mail'])]

  expect((await server.as(operator, 'DELETE', `/v1/jobs/${id}`)).status).toBe(403)
  expect((await server.as(deleter, 'DELETE', `/v1/jobs/${id}`)).json).toEqual({ id, result: 'deleted' })
  expect((await server.as(deleter, 'DELETE', `/v1/jobs/${id}`)).json).toMatchObject({ code: 'job_not_found' })

  const { entries } = await server.holdfast.audit({ action: 'delete' })
  expect(entries).toMatchObject([{ job: id, actor: expect.stringMatching(/^key:/) }])
})

test('a running job is refused, and with cancel=true asked to stop', async () => {
  const { id } = await server.holdfast.enqueue('x', null, { queue: 'busy' })
  const claim = { queues: [{ queue: 'busy', limit: 1 }], types: null, worker: 'w', leaseMs: 30_000 }
  await server.store.claim(claim)

  expect((await server.admin('DELETE', `/v1/jobs/${id}`)).json).toMatchObject({ status: 409, code: 'wrong_state' })
  expect((await server.admin('DELETE', `/v1/jobs/${id}?cancel=true`)).json).toEqual({ id, result: 'asked' })
  expect((await server.admin('DELETE', `/v1/jobs/${id}?cancel=maybe`)).status).toBe(400)
})

test('deleting in bulk takes the scope beside the others', async () => {
  const operator = await server.key(['read', 'operate'])
  const deleter = await server.key(['read', 'operate', 'delete'])
  const body = { action: 'delete', filter: 'queue:mail' }

  expect((await server.as(operator, 'POST', '/v1/bulk', { body })).status).toBe(403)
  expect((await server.as(deleter, 'POST', '/v1/bulk', { body: { ...body, dryRun: true } })).status).toBe(200)
  expect((await server.as(deleter, 'POST', '/v1/bulk', { body })).status).toBe(202)
})
