// Cancelling: a waiting job never starts. A running one is notified through its signal, from any process.

import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect, defineJob } from 'holdfast'

const crunch = defineJob<{ minutes: number }>('crunch')

const holdfast = await connect()

const waiting = await holdfast.enqueue(crunch, { minutes: 1 }, { delay: '1h' })
assert.equal((await holdfast.cancel(waiting.id, { by: 'ada' })).result, 'cancelled')
console.log('waiting: cancelled immediately')

let started = () => {}
const running = new Promise<void>((resolve) => {
  started = resolve
})
const worker = holdfast.worker({
  handlers: [
    crunch.handle(async ({ minutes }, { signal }) => {
      started()
      // Pass the signal to everything that takes long: fetch, timers, queries. Its reason says why it fired.
      await sleep(minutes * 60_000, undefined, { signal })
    }),
  ],
})
await worker.start()

const { id } = await holdfast.enqueue(crunch, { minutes: 30 })
await running
assert.equal((await holdfast.cancel(id)).result, 'asked')
await assert.rejects(holdfast.wait(id, { timeout: '10s' }), { code: 'job_cancelled' })
console.log('running: its signal fired and it ended')

await assert.rejects(holdfast.requeue(id), { code: 'wrong_state' })
console.log('cancelled for good: only a dead job can be requeued')

await holdfast.close()
