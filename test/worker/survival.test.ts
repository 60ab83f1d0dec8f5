import { expect, test } from 'vitest'
import { defineJob } from '../../src/client/define-job.js'
import { sleep } from '../../src/core/ports.js'
import type { Store } from '../../src/core/store.js'
import { seededRandom } from '../../src/testing/seeded-random.js'
import { openStage, type Stage } from './stage.js'

const METHODS: readonly (keyof Store)[] = ['claim', 'settle', 'extend', 'watch', 'note', 'promote', 'expired', 'begin']

// Three workers, jobs that succeed, fail, snooze and take their time, and a store that comes and goes. Outages stay
// shorter than a lease, so whatever happens no job may run twice concurrently, and in the end every job is settled.
test.each([1, 2, 3, 4, 5, 6])(
  'a store that comes and goes loses nothing and doubles nothing (seed %i)',
  async (seed) => {
    const stage = openStage()
    const random = seededRandom(seed)
    const running = new Map<string, number>()
    const doubled: string[] = []
    const definition = defineJob('work', { maxAttempts: 50, retry: { base: '100ms', cap: '2s' } })
    const handler = definition.handle(async (_payload, ctx) => {
      const count = (running.get(ctx.id) ?? 0) + 1
      running.set(ctx.id, count)
      if (count > 1) doubled.push(ctx.id)
      ctx.log(`attempt ${ctx.attempt}`)
      try {
        const fate = random.float()
        if (fate < 0.7) await sleep(stage.clock.timers, Math.floor(random.float() * 3_000))
        if (fate < 0.2) throw new Error('bad luck')
        if (fate > 0.97) ctx.snooze('1s')
      } finally {
        running.set(ctx.id, running.get(ctx.id)! - 1)
      }
    })
    const workers = [1, 2, 3].map(() => stage.worker({ handlers: [handler], concurrency: 8, lease: '20s' }))
    const upkeep = stage.upkeep({ hold: '10s' })
    const ids: string[] = []
    for (let index = 0; index < 150; index++) ids.push(await stage.enqueue())

    for (const worker of workers) await worker.start()
    upkeep.start()
    for (let round = 0; round < 20; round++) {
      breakSomething(stage, random.float)
      await stage.clock.advance(Math.floor(random.float() * 4_000))
      stage.heal()
      await stage.clock.advance(Math.floor(random.float() * 3_000))
    }
    // Jobs whose claim was lost run one at a time afterwards, which takes its time.
    for (let minute = 0; minute < 20 && (await countUnfinished(stage)) > 0; minute++) await stage.clock.advance(60_000)
    const states = await Promise.all(ids.map(async (id) => (await stage.get(id)).state))
    await Promise.all(workers.map((worker) => worker.stop()))
    await upkeep.stop()

    expect(states.filter((state) => state !== 'succeeded')).toEqual([])
    expect(doubled).toEqual([])
  },
)

async function countUnfinished({ store }: Stage): Promise<number> {
  const { blocked, scheduled, ready, running, retrying } = await store.stats(null)
  return blocked + scheduled + ready + running + retrying
}

function breakSomething(stage: Stage, chance: () => number): void {
  const methods = METHODS.filter(() => chance() < 0.5)
  stage.fail(methods, { lose: chance() < 0.5 })
}
