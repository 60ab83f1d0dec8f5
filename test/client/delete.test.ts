import { describe, expect, test } from 'vitest'
import { failure, finish, openClient } from './support.js'

const ABSENT = '0199c3a1-7f00-7000-8000-000000000001'

describe('delete', () => {
  test('removes a job, and repeating it is harmless', async () => {
    const { client, store } = await openClient()
    await client.enqueue('send', { to: 'ada' }, { queue: 'mail' })
    const id = await finish(store, 'mail', { state: 'succeeded' })

    expect(await client.delete(id, { by: 'ada' })).toEqual({ id, result: 'deleted' })
    expect(await client.delete(id)).toEqual({ id, result: 'missing' })

    expect(await client.get(id)).toBe(null)
    expect((await failure(client.wait(id))).code).toBe('job_not_found')
    const { entries } = await client.audit({ action: 'delete' })
    expect(entries).toMatchObject([{ actor: 'ada', job: id, target: null, details: null }])
  })

  test('refuses a job that runs, and with cancel asks its worker to stop it', async () => {
    const { client, store } = await openClient()
    const { id } = await client.enqueue('send', null)
    const claim = { queues: [{ queue: 'default', limit: 1 }], types: null, worker: 'w', leaseMs: 30_000 }
    await store.claim(claim)

    const error = await failure(client.delete(id))
    expect([error.code, error.message]).toEqual(['wrong_state', expect.stringContaining('cancel: true')])
    expect(await client.delete(id, { cancel: true })).toEqual({ id, result: 'asked' })

    expect(await client.get(id)).toMatchObject({ state: 'running', cancelRequested: true })
  })

  test('answers an id of no job as missing, and refuses what is no id and no option', async () => {
    const { client } = await openClient()

    expect(await client.delete(ABSENT)).toEqual({ id: ABSENT, result: 'missing' })
    for (const wrong of [
      client.delete('x'),
      client.delete(7 as never),
      client.delete(ABSENT, { cancel: 'yes' } as never),
      client.delete(ABSENT, { force: true } as never),
      client.delete(ABSENT, { by: '' }),
    ]) {
      expect((await failure(wrong)).code).toBe('invalid_option')
    }
  })

  test('of all jobs that match is a bulk action, which the audit log names with its filter', async () => {
    const { client, store } = await openClient()
    const tags = ['customer:42']
    for (let number = 0; number < 3; number++) await client.enqueue('send', { number }, { tags })
    const { id: other } = await client.enqueue('send', null)

    expect(await client.bulk({ action: 'delete', filter: 'tag:customer:42', dryRun: true })).toMatchObject({ can: 3 })
    const { id } = await client.bulk({ action: 'delete', filter: 'tag:customer:42' }, { by: 'ada' })
    await store.stepBulk()

    expect(await client.getBulk(id)).toMatchObject({ state: 'done', done: 3, refused: 0 })
    expect((await client.list()).jobs.map((job) => job.id)).toEqual([other])
    const { entries } = await client.audit({ action: 'start bulk' })
    expect(entries).toMatchObject([{ actor: 'ada', details: { action: 'delete', filter: { tags: [tags] } } }])
  })
})
