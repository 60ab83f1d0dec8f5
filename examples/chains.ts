// Chains: a job that comes after others waits, blocked, until they have finished.

import assert from 'node:assert/strict'
import { connect, DropJob, defineJob } from 'holdfast'

const extract = defineJob<{ source: string }>('extract')
const transform = defineJob<{ extracted: string }>('transform')
const load = defineJob('load')

const holdfast = await connect()
const order: string[] = []

// Parents first: each child names the ids it comes after.
const first = await holdfast.enqueue(extract, { source: 'orders.csv' })
const second = await holdfast.enqueue(transform, { extracted: first.id }, { after: first.id })
const third = await holdfast.enqueue(load, null, { after: [first.id, second.id] })
console.log(first.state, second.state, third.state)
assert.deepEqual([first.state, second.state, third.state], ['ready', 'blocked', 'blocked'])

// When a parent dies its children are cancelled; with onParentDead: 'run' they run anyway.
const broken = await holdfast.enqueue(extract, { source: 'missing.csv' })
const cancelled = await holdfast.enqueue(load, null, { after: broken.id })

const worker = holdfast.worker({
  handlers: [
    extract.handle(({ source }) => {
      if (source === 'missing.csv') throw new DropJob('there is no such file')
      order.push('extract')
      return { rows: 3 }
    }),
    transform.handle(async ({ extracted }) => {
      order.push('transform')
      return (await holdfast.get(extracted))?.result
    }),
    load.handle(() => order.push('load')),
  ],
})
await worker.start()

await holdfast.wait(third.id, { timeout: '10s' })
console.log(order.join(' → '))
assert.deepEqual(order, ['extract', 'transform', 'load'])
assert.deepEqual(await holdfast.wait(second.id), { rows: 3 })
await assert.rejects(holdfast.wait(cancelled.id, { timeout: '10s' }), { code: 'job_cancelled' })

await holdfast.close()
