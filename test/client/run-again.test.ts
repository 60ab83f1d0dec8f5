import { describe, expect, test } from 'vitest'
import { failure, finish, openClient } from './support.js'

describe('runAgain', () => {
  test('makes a new job with what the finished one was given', async () => {
    const { client, store } = await openClient()
    const options = { queue: 'mail', priority: 4, maxAttempts: 3, tags: ['eu'], group: 'acme' }
    await client.enqueue('send', { to: 'ada' }, options)
    const id = await finish(store, 'mail', { state: 'succeeded' })

    const again = await client.runAgain(id, { by: 'ada' })

    expect(again).toMatchObject({ created: true, state: 'ready' })
    expect(again.id).not.toBe(id)
    const job = { type: 'send', payload: { to: 'ada' }, queue: 'mail', priority: 4, maxAttempts: 3, tags: ['eu'] }
    expect(await client.get(again.id)).toMatchObject({ ...job, attempt: 0, flow: { group: 'acme' } })
    const { entries } = await client.audit({ action: 'run again' })
    expect(entries).toMatchObject([{ actor: 'ada', job: id, target: again.id }])
  })

  test('refuses a job that has not finished, and one that does not exist', async () => {
    const { client } = await openClient()
    const { id } = await client.enqueue('send', null)

    expect(await failure(client.runAgain(id))).toMatchObject({ code: 'wrong_state', details: { state: 'ready' } })
    expect((await failure(client.runAgain('0199c3a1-7f00-7000-8000-000000000001'))).code).toBe('job_not_found')
  })
})
