// What the compiler knows about definitions. These facts are checked by `npm run types`.

import * as v from 'valibot'
import { expectTypeOf, test } from 'vitest'
import { z } from 'zod'
import type { Client } from '../../src/client/client.js'
import { defineJob } from '../../src/client/define-job.js'
import type { JobDefinition } from '../../src/core/definition.js'

const withZod = defineJob('a', { input: z.object({ to: z.string(), at: z.coerce.date<string>() }), queue: 'q' })
const withValibot = defineJob('b', { input: v.object({ n: v.pipe(v.string(), v.transform(Number)) }) })
const plain = defineJob<{ to: string }>('c', { maxAttempts: 3 })
const open = defineJob('d')

test('producers get the input of a schema, handlers its output', () => {
  expectTypeOf(withZod).toEqualTypeOf<JobDefinition<{ to: string; at: string }, { to: string; at: Date }>>()
  expectTypeOf(withValibot).toEqualTypeOf<JobDefinition<{ n: string }, { n: number }>>()
  withZod.handle((payload) => expectTypeOf(payload).toEqualTypeOf<{ to: string; at: Date }>())
  withValibot.handle((payload) => expectTypeOf(payload).toEqualTypeOf<{ n: number }>())
})

test('without a schema the payload is what the definition says, or unknown', () => {
  expectTypeOf(plain).toEqualTypeOf<JobDefinition<{ to: string }, { to: string }>>()
  expectTypeOf(open).toEqualTypeOf<JobDefinition<unknown, unknown>>()
})

test('a payload of another type does not compile', () => {
  // Never called: it is here to be compiled.
  const compiled = async (client: Client) => {
    await client.enqueue(withZod, { to: 'x', at: '2026-01-01' })
    // @ts-expect-error at is given as text
    await client.enqueue(withZod, { to: 'x', at: new Date(0) })
    // @ts-expect-error to is missing
    await client.enqueue(plain, {})
    await client.enqueue(open, Symbol.iterator)
    await client.enqueue('anything', { at: 1 })
    await client.enqueueMany(withValibot, [{ n: '1' }, { n: '2' }])
    // @ts-expect-error n is given as text
    await client.enqueueMany(withValibot, [{ n: 1 }])
    await client.enqueueMany([
      [withValibot, { n: '1' }],
      [plain, { to: 'x' }, { delay: '5s' }],
      ['anything', 7],
    ])
    // @ts-expect-error the second one's payload is of another type
    await client.enqueueMany([[withValibot, { n: '1' }], [plain, { to: 7 }]]) // biome-ignore format: the directive counts for one line
    // @ts-expect-error a duration needs a unit
    await client.enqueue(open, 1, { delay: '5' })
    // @ts-expect-error one key cannot name many jobs
    await client.enqueueMany(open, [1], { idempotencyKey: 'k' })
    await client.schedule('s', { cron: '* * * * *', job: plain, payload: { to: 'x' } })
    // @ts-expect-error the payload is of another type
    await client.schedule('s', { cron: '* * * * *', job: plain, payload: { to: 7 } })
    expectTypeOf(await client.wait<number>('id')).toEqualTypeOf<number>()
  }

  expectTypeOf(compiled).toBeFunction()
})
