import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { defineJob } from '../../src/client/define-job.js'
import { openStage } from './stage.js'

describe('payloads and their versions', () => {
  test('a job newer than the code is released for a newer worker, without a failure and without going in circles', async () => {
    const stage = openStage()
    const id = await stage.enqueue({ version: 3 })
    let calls = 0
    const worker = stage.worker({
      handlers: [defineJob('work', { version: 2, upgrade: { 1: (p) => p } }).handle(() => void calls++)],
    })

    await worker.tick()
    const again = await worker.tick()

    const job = await stage.get(id)
    expect(calls).toBe(0)
    expect(again).toBe(0)
    expect(job).toMatchObject({ state: 'scheduled', attempt: 0, attempts: [] })
    expect(job.runAt!.getTime()).toBe(stage.clock.now() + 10_000)
  })

  test('an older payload is lifted step by step before the handler sees it', async () => {
    const stage = openStage()
    const id = await stage.enqueue({ version: 1, payload: '{"name":"Ada Lovelace"}' })
    const upgrade = {
      1: ({ name }: { name: string }) => ({ first: name.split(' ')[0], last: name.split(' ')[1] }),
      2: (payload: { first: string; last: string }) => ({ ...payload, title: null }),
    }
    const handler = defineJob('work', { version: 3, upgrade }).handle((payload) => payload)

    await stage.worker({ handlers: [handler] }).tick()

    expect(await stage.get(id)).toMatchObject({
      state: 'succeeded',
      result: { first: 'Ada', last: 'Lovelace', title: null },
    })
  })

  test('an upgrade that throws makes the job dead: invalid', async () => {
    const stage = openStage()
    const id = await stage.enqueue({ version: 1 })
    const upgrade = {
      1: () => {
        throw new Error('cannot')
      },
    }

    await stage.worker({ handlers: [defineJob('work', { version: 2, upgrade }).handle(() => 'never')] }).tick()

    expect(await stage.get(id)).toMatchObject({ state: 'dead', reason: 'invalid', error: { code: 'invalid_payload' } })
  })

  test('a payload that does not fit the schema is dead: invalid, at its first attempt', async () => {
    const stage = openStage()
    const id = await stage.enqueue({ payload: '{"to":7}' })
    const handler = defineJob('work', { input: z.object({ to: z.string() }) }).handle(() => 'never')

    await stage.worker({ handlers: [handler] }).tick()

    const job = await stage.get(id)
    expect(job).toMatchObject({ state: 'dead', reason: 'invalid', attempt: 1, error: { code: 'invalid_payload' } })
    expect(job.error!.message).toContain('to:')
  })

  test('the handler gets what the schema makes of the payload, also when the schema is asynchronous', async () => {
    const stage = openStage()
    const id = await stage.enqueue({ payload: '{"n":"5"}' })
    const input = z.object({ n: z.string().transform(async (text) => Number(text)) })
    const handler = defineJob('work', { input }).handle(({ n }) => n + 1)

    await stage.worker({ handlers: [handler] }).tick()

    expect(await stage.get(id)).toMatchObject({ state: 'succeeded', result: 6 })
  })

  test('a schema that throws is a failed attempt like any other', async () => {
    const stage = openStage()
    const id = await stage.enqueue()
    const input = z.unknown().transform(() => {
      throw new Error('the lookup failed')
    })

    await stage.worker({ handlers: [defineJob('work', { input }).handle(() => 'never')] }).tick()

    expect(await stage.get(id)).toMatchObject({ state: 'retrying', error: { message: 'the lookup failed' } })
  })

  test('a payload that is no JSON any more is dead: invalid', async () => {
    const stage = openStage()
    const id = await stage.enqueue({ payload: '{broken' })

    // The view cannot show such a payload either, so the events tell.
    await stage.worker({ handlers: [defineJob('work').handle(() => 'never')] }).tick()

    expect(stage.heard('job.settled')).toMatchObject([{ id, state: 'dead', reason: 'invalid' }])
  })
})
