// Idempotency keys: enqueueing the same thing twice makes one job, for any number of callers and processes.

import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { connect, defineJob } from 'holdfast'

const sendWelcome = defineJob<{ user: string }>('send_welcome')

const holdfast = await connect()
const user = randomUUID()
const enqueue = () => holdfast.enqueue(sendWelcome, { user }, { idempotencyKey: `welcome:${user}` })

// As text, the key is taken while its job is unfinished.
const tries = await Promise.all(Array.from({ length: 20 }, enqueue))
const ids = new Set(tries.map(({ id }) => id))
console.log(`20 calls, ${ids.size} job, ${tries.filter(({ created }) => created).length} created it`)
assert.equal(ids.size, 1)
assert.equal(tries.filter(({ created }) => created).length, 1)

const worker = holdfast.worker({ handlers: [sendWelcome.handle(({ user }) => user)] })
await worker.start()
await holdfast.wait(tries[0]!.id, { timeout: '10s' })

const next = await enqueue()
console.log(`finished: the key is free, created ${next.created}`)
assert.equal(next.created, true)
await holdfast.wait(next.id, { timeout: '10s' })

// With a time, it is taken for that long, whatever becomes of the job.
const daily = { idempotencyKey: { key: `daily:${user}`, for: '24h' } } as const
const today = await holdfast.enqueue(sendWelcome, { user }, daily)
await holdfast.wait(today.id, { timeout: '10s' })
const again = await holdfast.enqueue(sendWelcome, { user }, daily)
console.log(`within the day: created ${again.created}, ${again.state}`)
assert.deepEqual({ ...again }, { id: today.id, created: false, state: 'succeeded' })

await holdfast.close()
