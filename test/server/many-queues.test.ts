// Queues are made by enqueueing to them: bounded for each key, never out of sight, and removed when they are empty.

import { afterAll, beforeAll, expect, test } from 'vitest'
import { TestServer } from './support.js'

let server: TestServer

beforeAll(async () => {
  server = await TestServer.open()
})

afterAll(() => server.close())

test('a key creates at most a hundred queues; other keys and existing queues are not affected', async () => {
  const [one, two] = [await server.key(['enqueue']), await server.key(['enqueue'])]
  const jobs = (from: number, count: number) => ({
    jobs: Array.from({ length: count }, (_, index) => ({ type: 'x', queue: `made-${from + index}` })),
  })

  expect((await server.as(one, 'POST', '/v1/jobs/batch', { body: jobs(0, 100) })).status).toBe(200)
  const refused = await server.as(one, 'POST', '/v1/jobs', { body: { type: 'x', queue: 'made-100' } })
  expect([refused.status, refused.json.code]).toEqual([409, 'too_many_queues'])
  expect((await server.as(one, 'POST', '/v1/jobs', { body: { type: 'x', queue: 'made-7' } })).status).toBe(201)
  expect((await server.as(two, 'POST', '/v1/jobs', { body: { type: 'x', queue: 'made-100' } })).status).toBe(201)
})

test('every queue can be read by offset, the oldest first, however many there are', async () => {
  await server.holdfast.enqueue('x', null, { queue: 'zebra' })
  const jobs = Array.from({ length: 1_500 }, (_, index) => ['x', null, { queue: `later-${index}` }] as const)
  await server.holdfast.enqueueMany(jobs)

  const first = (await server.admin('GET', '/v1/queues')).json
  const second = (await server.admin('GET', '/v1/queues?offset=1000')).json

  expect(first.queues.map(({ name }: { name: string }) => name)).toContain('zebra')
  expect([first.queues.length, first.exact]).toEqual([1_000, false])
  expect(first.queues.length + second.queues.length).toBe(first.total)
  expect((await server.admin('GET', '/v1/queues/later-1499')).json).toMatchObject({ name: 'later-1499', ready: 1 })
  expect((await server.admin('GET', '/v1/queues/none')).status).toBe(404)
})

test('a queue with only finished jobs can be removed', async () => {
  const { id } = await server.holdfast.enqueue('x', null, { queue: 'gone' })
  const remove = () => server.admin('DELETE', '/v1/queues/gone')

  const busy = await remove()
  await server.holdfast.cancel(id)

  expect([busy.status, busy.json.code]).toEqual([409, 'queue_not_empty'])
  expect((await remove()).status).toBe(204)
  expect([(await remove()).status, (await remove()).json.code]).toEqual([404, 'queue_not_found'])
})

test('a store holds ten thousand queues', async () => {
  const jobs = Array.from({ length: 5_000 }, (_, index) => ['x', null, { queue: `many-${index}` }] as const)
  await server.holdfast.enqueueMany(jobs)

  const more = jobs.map(([type, payload], index) => [type, payload, { queue: `more-${index}` }] as const)

  await expect(server.holdfast.enqueueMany(more)).rejects.toMatchObject({ code: 'too_many_queues' })
  await expect(server.holdfast.enqueue('x', null, { queue: 'many-1' })).resolves.toMatchObject({ created: true })
})
