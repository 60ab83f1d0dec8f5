// What a handler throws decides what becomes of its job: retried, retried at a chosen time, or dead.

import assert from 'node:assert/strict'
import { connect, DropJob, defineJob, isHoldfastError, RetryJob } from 'holdfast'

const callApi = defineJob<{ answers: number[] }>('call_api', {
  maxAttempts: 4,
  retry: { backoff: 'exponential', base: '20ms', cap: '1s' },
})

const holdfast = await connect()

const worker = holdfast.worker({
  handlers: [
    callApi.handle(({ answers }, ctx) => {
      const status = answers[ctx.attempt - 1]
      // Waits as long as the API asks for.
      if (status === 429) throw new RetryJob('asked to slow down', { delay: '50ms' })
      // A retry would not help.
      if (status === 404) throw new DropJob('there is no such account')
      // Waits out its backoff.
      if (status !== 200) throw new Error(`HTTP ${status}`)
      return 'done'
    }),
  ],
})
await worker.start()

async function call(...answers: number[]): Promise<string> {
  const { id } = await holdfast.enqueue(callApi, { answers })
  const ending = await holdfast.wait<string>(id, { timeout: '10s' }).catch((error) => {
    if (!isHoldfastError(error, 'job_dead')) throw error
    return `dead (${error.details.reason})`
  })
  const job = await holdfast.get(id)
  const errors = job?.attempts.map(({ error }) => error.message).join(', ')
  return `${ending} after ${job?.attempt}: ${errors}`
}

const endings = [await call(500, 429, 200), await call(500, 404), await call(500, 502, 503, 504)]
for (const ending of endings) console.log(ending)
assert.deepEqual(endings, [
  'done after 3: HTTP 500, asked to slow down',
  'dead (dropped) after 2: HTTP 500, there is no such account',
  'dead (attempts) after 4: HTTP 500, HTTP 502, HTTP 503, HTTP 504',
])

await holdfast.close()
