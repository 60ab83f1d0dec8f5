// A worker process of the experiment with long jobs. What a handler does is written down before anything can happen to it.

import { appendFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { openHoldfast } from '../../src/holdfast.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { readAssignment, sendToParent } from '../bench/parent.js'
import { type CarefulAssignment, type CarefulLine, effectJob, longJob } from './careful-jobs.js'

const HONOURING = 'INSERT INTO honouring (key) VALUES ($1) ON CONFLICT (key) DO UPDATE SET calls = honouring.calls + 1'
const FORGETFUL = 'INSERT INTO forgetful (key) VALUES ($1)'

async function main({ url, record, slots, leaseMs, stepMs }: CarefulAssignment): Promise<void> {
  const provider = new pg.Pool({ connectionString: url, max: slots })
  provider.on('error', () => {})
  const note = (line: CarefulLine) => appendFileSync(record, `${JSON.stringify(line)}\n`)
  const holdfast = await openHoldfast(await postgresStore(url), { upkeep: { hold: 0 } })
  const long = longJob.handle(async ({ steps, writes }, ctx) => {
    for (let n = 0; n < steps; n++) {
      await ctx.step(`step ${n}`, async () => {
        note({ what: 'step', id: ctx.id, name: `step ${n}`, fence: ctx.fence, begun: 1 })
        if (writes) await ctx.write(`${n} of ${ctx.fence};`)
        await sleep(stepMs)
      })
    }
  })
  const effects = effectJob.handle(async ({ steps }, ctx) => {
    for (let n = 0; n < steps; n++) {
      for (const [name, call] of [
        [`honouring ${n}`, HONOURING],
        [`forgetful ${n}`, FORGETFUL],
      ] as const) {
        await ctx.once(name, async (key, { begun }) => {
          note({ what: 'effect', id: ctx.id, name, fence: ctx.fence, begun })
          await provider.query(call, [key])
          await sleep(stepMs / 2)
        })
      }
    }
  })
  const worker = holdfast.worker({ handlers: [long, effects], queues: ['default'], concurrency: slots, lease: leaseMs })
  await worker.start()
  sendToParent({ kind: 'ready' })
  // It works until it is killed.
}

await main(readAssignment<CarefulAssignment>())
