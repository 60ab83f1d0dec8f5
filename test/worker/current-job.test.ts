import { describe, expect, test } from 'vitest'
import { attributeUncaught, currentJob } from '../../src/worker/current-job.js'
import { gate, openStage, work } from './stage.js'

describe('the current job', () => {
  test('is known to everything a handler starts, and to nothing else', async () => {
    const stage = openStage()
    const ids = [await stage.enqueue(), await stage.enqueue()]
    const seen: (string | undefined)[] = []
    const worker = stage.worker({
      handlers: [
        work(async () => {
          await Promise.resolve()
          await new Promise((resolve) => setImmediate(resolve))
          seen.push(currentJob()?.id)
        }),
      ],
    })

    await worker.tick()

    expect(seen).toEqual(ids)
    expect(currentJob()).toBeNull()
  })

  test('an error nothing caught fails the job it belongs to and leaves the others alone', async () => {
    const stage = openStage()
    const failing = await stage.enqueue({ payload: '{"fail":true}' })
    const other = await stage.enqueue()
    const never = gate()
    const attributed: boolean[] = []
    const worker = stage.worker({
      handlers: [
        work(async (payload) => {
          if (!(payload as { fail?: boolean }).fail) return 'fine'
          // What a listener for uncaughtException would do, in the context in which it is called.
          setImmediate(() => attributed.push(attributeUncaught(new Error('thrown in a callback'))))
          return never.promise
        }),
      ],
    })

    await worker.tick()

    expect(attributed).toEqual([true])
    expect(await stage.get(failing)).toMatchObject({ state: 'retrying', error: { message: 'thrown in a callback' } })
    expect(await stage.get(other)).toMatchObject({ state: 'succeeded' })
  })

  test('an error outside of handlers belongs to no job', () => {
    expect(attributeUncaught(new Error('elsewhere'))).toBe(false)
  })
})
