// Testing jobs without a server: the memory store, a clock the test owns, and drain().

import assert from 'node:assert/strict'
import { z } from 'zod'
import { defineJob, type Holdfast } from '../src/index.js'
import { assertEnqueued, assertNotEnqueued, testHoldfast } from '../src/testing/index.js'

// What is tested: signing up sends a welcome now and a question a week later.
const sendEmail = defineJob('send_email', {
  input: z.object({ to: z.email(), template: z.enum(['welcome', 'question']) }),
  queue: 'email',
  maxAttempts: 3,
  retry: { backoff: 'fixed', base: '30s', jitter: false },
})

async function signUp(holdfast: Holdfast, to: string): Promise<void> {
  await holdfast.enqueue(sendEmail, { to, template: 'welcome' }, { idempotencyKey: `welcome:${to}` })
  await holdfast.enqueue(sendEmail, { to, template: 'question' }, { delay: '7d' })
}

// 1. Was the right thing enqueued?
{
  const { holdfast, close } = await testHoldfast()

  await signUp(holdfast, 'ann@example.com')
  await signUp(holdfast, 'ann@example.com')

  await assertEnqueued(holdfast, sendEmail, { payload: { template: 'welcome' }, state: 'ready', count: 1 })
  await assertEnqueued(holdfast, sendEmail, { payload: { template: 'question' }, state: 'scheduled' })
  await assertNotEnqueued(holdfast, 'charge_card')
  await close()
}

// 2. Does the handler do its work? drain() runs what is due; the clock stands still until the test moves it.
{
  const { holdfast, clock, drain, close } = await testHoldfast()
  const sent: string[] = []
  const handlers = [
    sendEmail.handle(({ to, template }) => {
      sent.push(`${template} to ${to}`)
      return { accepted: true }
    }),
  ]
  await signUp(holdfast, 'ann@example.com')

  const [welcome] = await drain(handlers)
  assert.deepEqual(sent, ['welcome to ann@example.com'])
  assert.deepEqual(welcome?.result, { accepted: true })

  await clock.advance(7 * 24 * 60 * 60 * 1000)
  await drain(handlers)
  assert.deepEqual(sent, ['welcome to ann@example.com', 'question to ann@example.com'])
  await close()
}

// 3. What happens when it fails? With until: 'finished' drain() moves the clock through every backoff.
{
  const { holdfast, clock, drain, close } = await testHoldfast()
  const startedAt = clock.now()
  await holdfast.enqueue(sendEmail, { to: 'ann@example.com', template: 'welcome' })

  const failing = sendEmail.handle(() => {
    throw new Error('mail server is down')
  })
  const [job] = await drain([failing], { until: 'finished' })

  assert.equal(job?.state, 'dead')
  assert.equal(job?.reason, 'attempts')
  assert.equal(job?.attempts.length, 3)
  assert.equal(clock.now() - startedAt, 2 * 30_000)
  await close()
}

console.log('all three hold')
