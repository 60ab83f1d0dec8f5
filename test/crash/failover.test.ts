// Another server takes over while worker processes are at work.

import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { FaultProxy } from '../../lab/chaos/proxy.js'
import { PostgresPair } from '../../lab/servers/standby.js'
import { Stage } from '../support/stage.js'

const WORKER = { concurrency: 16, lease: '5s', pollMax: '500ms' }

// F42 and F43 of docs/findings/chaos.md.
describe('worker processes, when another server takes over', () => {
  let pair: PostgresPair
  /** The address everybody knows. */
  let address: FaultProxy
  let stage: Stage
  beforeEach(async () => {
    pair = await PostgresPair.open()
    address = await FaultProxy.open(pair.primary.port)
    stage = await Stage.open(address.url)
  }, 120_000)
  afterEach(async () => {
    await stage.close()
    await address.close()
    await pair.close()
  })

  test.each([
    ['after a tidy switch', () => pair.switchOver()],
    [
      'and the old one stays up, with its connections open, unable to write',
      async () => {
        await pair.refuseWrites()
        await pair.caughtUp()
        await pair.promote()
      },
    ],
  ])(
    'run every job that was accepted before and every one after: %s',
    async (_, takeOver) => {
      const workers = [await stage.startWorker({ worker: WORKER }), await stage.startWorker({ worker: WORKER })]
      const before = await enqueue(stage, 60)
      await workers[0]!.next(() => workers.some((worker) => worker.events('job.settled').length > 5))

      await takeOver()
      address.retarget(pair.primary.port)
      const after = await enqueue(stage, 60)
      const all = [...before, ...after]
      // Raises for a job that ends in any other way than by success.
      const results = await Promise.all(all.map((id) => stage.holdfast.wait(id, { timeout: '60s' })))

      expect(results.length).toBe(120)
      expect(workers.map((worker) => worker.isAlive)).toEqual([true, true])
    },
    180_000,
  )
})

/** Enqueues a number of jobs, one after the other. */
async function enqueue(stage: Stage, count: number): Promise<string[]> {
  const ids: string[] = []
  for (let number = 0; number < count; number++) ids.push((await stage.holdfast.enqueue('work', { sleepMs: 20 })).id)
  return ids
}
