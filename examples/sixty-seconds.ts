// Sixty seconds: define a job, enqueue it, run it, get its result.

import assert from 'node:assert/strict'
import { connect, defineJob } from 'holdfast'

const greet = defineJob<{ name: string }>('greet', { maxAttempts: 5, timeout: '30s' })

// HOLDFAST_URL, then DATABASE_URL; without either, an embedded PostgreSQL server in the folder .holdfast.
const holdfast = await connect()

const worker = holdfast.worker({
  handlers: [greet.handle(async ({ name }, ctx) => `Hello, ${name}! (attempt ${ctx.attempt})`)],
})
await worker.start()

// The job is durable when this resolves.
const { id } = await holdfast.enqueue(greet, { name: 'Ada' })
const result = await holdfast.wait(id, { timeout: '10s' })

console.log(result)
assert.equal(result, 'Hello, Ada! (attempt 1)')

await holdfast.close()
