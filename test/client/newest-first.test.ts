import { expect, test } from 'vitest'
import { defineJob } from '../../src/index.js'
import { failure, openClient } from './support.js'

const claim = { queues: [{ queue: 'photos', limit: 10 }], types: null, worker: 'w', leaseMs: 30_000 }

test('jobs of a definition with lifo run newest first, unless one says otherwise', async () => {
  const { client, store } = await openClient()
  const thumbnail = defineJob<string>('thumbnail', { queue: 'photos', lifo: true })
  const [first, second] = [await client.enqueue(thumbnail, 'a'), await client.enqueue(thumbnail, 'b')]
  const [last] = await client.enqueueMany(thumbnail, ['c'], { lifo: false })
  const { id: third } = await client.enqueue('other', null, { queue: 'photos', lifo: true })

  const { jobs } = await store.claim(claim)

  expect(jobs.map(({ id }) => id)).toEqual([third, second.id, first.id, last!.id])
})

test('a definition with lifo whose group comes from the payload refuses a job of a group', async () => {
  const { client } = await openClient()
  const thumbnail = defineJob<{ of: string }>('thumbnail', { lifo: true, group: ({ of }) => of })

  expect((await failure(client.enqueue(thumbnail, { of: 'acme' }))).code).toBe('invalid_option')
  expect(() => defineJob('a', { lifo: 'yes' } as never)).toThrow('lifo must be')
})
