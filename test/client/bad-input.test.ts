// Everything a caller can get wrong at the client: the code, the message, and that nothing was written.

import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import type { Client } from '../../src/client/client.js'
import { defineJob } from '../../src/client/define-job.js'
import { count, failure, openClient } from './support.js'

const ID = '0190a3c2-7b1e-7c2d-8e4f-1a2b3c4d5e6f'
const strict = defineJob('strict', { input: z.object({ to: z.email(), n: z.number() }) })
const dated = defineJob('dated', { input: z.object({ at: z.date() }) })
const throwing = defineJob('throwing', {
  input: z.string().transform(() => {
    throw new Error('schema bug')
  }),
})

function nested(depth: number): unknown {
  let value: unknown = 1
  for (let level = 0; level < depth; level++) value = [value]
  return value
}

function circular(): unknown {
  const value: Record<string, unknown> = {}
  value.self = value
  return value
}

type Case = [name: string, act: (client: Client) => Promise<unknown>, code: string, message: RegExp]

const enqueueCases: Case[] = [
  ['an unknown option', (c) => c.enqueue('a', 1, { dealy: 5 } as never), 'invalid_option', /has no option "dealy"/],
  ['options that are no object', (c) => c.enqueue('a', 1, 'now' as never), 'invalid_option', /must be an object/],
  ['a job that is neither definition nor type', (c) => c.enqueue({} as never, 1), 'invalid_option', /defineJob/],
  ['a type with a quote', (c) => c.enqueue("a'b", 1), 'invalid_name', /^type must be 1 to 100/],
  ['a type that names a prototype', (c) => c.enqueue('__proto__', 1), 'invalid_name', /^type must be/],
  ['a type of 101 characters', (c) => c.enqueue('a'.repeat(101), 1), 'invalid_name', /^type must be/],
  ['a queue with a NUL', (c) => c.enqueue('a', 1, { queue: 'a\0' }), 'invalid_name', /^queue must be/],
  ['a queue with braces', (c) => c.enqueue('a', 1, { queue: '{a}' }), 'invalid_name', /^queue must be/],
  ['an empty queue', (c) => c.enqueue('a', 1, { queue: '' }), 'invalid_name', /^queue must be/],
  ['a priority too high', (c) => c.enqueue('a', 1, { priority: 40_000 }), 'invalid_option', /priority must be a whole/],
  ['a priority in words', (c) => c.enqueue('a', 1, { priority: 'high' as never }), 'invalid_option', /got "high"/],
  ['a priority that is no number', (c) => c.enqueue('a', 1, { priority: Number.NaN }), 'invalid_option', /got NaN/],
  ['a negative delay', (c) => c.enqueue('a', 1, { delay: -1 }), 'invalid_option', /delay must be between/],
  [
    'a delay of a thousand years',
    (c) => c.enqueue('a', 1, { delay: '365000d' }),
    'invalid_option',
    /delay must be bet/,
  ],
  ['a delay without unit', (c) => c.enqueue('a', 1, { delay: '5' as never }), 'invalid_option', /delay must be a dura/],
  ['an endless delay', (c) => c.enqueue('a', 1, { delay: Number.POSITIVE_INFINITY }), 'invalid_option', /got Infinity/],
  [
    'a date that does not exist',
    (c) => c.enqueue('a', 1, { runAt: '2026-02-30T09:00:00Z' }),
    'invalid_option',
    /runAt/,
  ],
  ['a date without zone', (c) => c.enqueue('a', 1, { runAt: '2026-02-01T09:00:00' }), 'invalid_option', /time zone/],
  ['an invalid Date', (c) => c.enqueue('a', 1, { runAt: new Date('x') }), 'invalid_option', /got an invalid Date/],
  ['a date in year 20000', (c) => c.enqueue('a', 1, { runAt: new Date(6e14) }), 'invalid_option', /1970 to 9999/],
  [
    'both runAt and delay',
    (c) => c.enqueue('a', 1, { runAt: new Date(), delay: 5 }),
    'invalid_option',
    /runAt and delay both say when/,
  ],
  ['no attempts', (c) => c.enqueue('a', 1, { maxAttempts: 0 }), 'invalid_option', /maxAttempts must be/],
  ['absurdly many attempts', (c) => c.enqueue('a', 1, { maxAttempts: 1e9 }), 'invalid_option', /1 to 10000/],
  ['a timeout of no length', (c) => c.enqueue('a', 1, { timeout: '0s' }), 'invalid_option', /timeout must be between/],
  ['an age in words', (c) => c.enqueue('a', 1, { maxAge: 'week' as never }), 'invalid_option', /maxAge must be a dur/],
  [
    'an empty list of waits',
    (c) => c.enqueue('a', 1, { retry: { backoff: [] } }),
    'invalid_option',
    /backoff as a list/,
  ],
  ['an empty key', (c) => c.enqueue('a', 1, { idempotencyKey: '' }), 'invalid_option', /idempotencyKey must be 1 to/],
  ['a key with a NUL', (c) => c.enqueue('a', 1, { idempotencyKey: 'a\0b' }), 'invalid_option', /control characters/],
  [
    'a key with half a character',
    (c) => c.enqueue('a', 1, { idempotencyKey: '\ud800' }),
    'invalid_option',
    /well-formed/,
  ],
  ['a key of 201 characters', (c) => c.enqueue('a', 1, { idempotencyKey: 'k'.repeat(201) }), 'invalid_option', /200/],
  [
    'a key without its time',
    (c) => c.enqueue('a', 1, { idempotencyKey: { key: 'k' } as never }),
    'invalid_option',
    /idempotencyKey.for must be a duration/,
  ],
  [
    'after something that is no id',
    (c) => c.enqueue('a', 1, { after: 'job-1' }),
    'invalid_option',
    /after must be a job/,
  ],
  [
    'after a list with a non-id',
    (c) => c.enqueue('a', 1, { after: [ID, 'x'] }),
    'invalid_option',
    /after\[1\] must be/,
  ],
  [
    'after more jobs than allowed',
    (c) => c.enqueue('a', 1, { after: Array.from({ length: 101 }, () => ID) }),
    'invalid_option',
    /at most 100 ids, got 101/,
  ],
  [
    'an unknown word for a dead parent',
    (c) => c.enqueue('a', 1, { after: ID, onParentDead: 'die' as never }),
    'invalid_option',
    /onParentDead must be one of 'cancel', 'run'/,
  ],
  ['after a job that does not exist', (c) => c.enqueue('a', 1, { after: ID }), 'unknown_parent', /0190a3c2.*not exist/],
  ['too many tags', (c) => c.enqueue('a', 1, { tags: Array(17).fill('t') }), 'invalid_option', /at most 16/],
  ['a tag with a line break', (c) => c.enqueue('a', 1, { tags: ['a\nb'] }), 'invalid_option', /a tag must be/],
  ['a tx that cannot query', (c) => c.enqueue('a', 1, { tx: {} as never }), 'invalid_option', /query\(text, values\)/],
  [
    'a tx for a store without transactions',
    (c) => c.enqueue('a', 1, { tx: { query: async () => ({ rows: [] }) } }),
    'unsupported',
    /memory store takes part in its own transactions alone/,
  ],
  ['a signal that is none', (c) => c.enqueue('a', 1, { signal: {} as never }), 'invalid_option', /AbortSignal/],
]

const payloadCases: Case[] = [
  ['that does not fit', (c) => c.enqueue(strict, { to: 'x', n: '1' } as never), 'invalid_payload', /to: .*; n: /],
  ['that is missing', (c) => c.enqueue(strict, undefined as never), 'invalid_payload', /"strict"/],
  [
    'that fits now but not once it is read back',
    (c) => c.enqueue(dated, { at: new Date() }),
    'invalid_payload',
    /as it would be stored.*at: .*date/i,
  ],
  ['whose schema throws', (c) => c.enqueue(throwing, 'x'), 'invalid_payload', /threw.*schema bug/],
  ['that is circular', (c) => c.enqueue('a', circular()), 'invalid_payload', /cannot be written as JSON: .*circular/],
  ['with a BigInt', (c) => c.enqueue('a', { n: 1n }), 'invalid_payload', /BigInt/],
  ['that is a function', (c) => c.enqueue('a', () => 1), 'invalid_payload', /must be a JSON value, got function/],
  ['that is a symbol', (c) => c.enqueue('a', Symbol('x')), 'invalid_payload', /got symbol/],
  [
    'whose toJSON throws',
    (c) =>
      c.enqueue('a', {
        toJSON() {
          throw new Error('not me')
        },
      }),
    'invalid_payload',
    /not me/,
  ],
  ['nested 501 deep', (c) => c.enqueue('a', nested(501)), 'invalid_payload', /deeper than 500 levels/],
  ['nested 100,000 deep', (c) => c.enqueue('a', nested(100_000)), 'invalid_payload', /nested too deeply/],
  ['over the limit', (c) => c.enqueue('a', 'x'.repeat(1024 * 1024)), 'payload_too_large', /limit is 1048576/],
  ['over the limit in bytes alone', (c) => c.enqueue('a', 'ü'.repeat(600_000)), 'payload_too_large', /1200002 bytes/],
]

const operatorCases: Case[] = [
  ['get: an id that is no text', (c) => c.get(7 as never), 'invalid_option', /id must be a job id/],
  ['cancel: an id in upper case', (c) => c.cancel(ID.toUpperCase()), 'invalid_option', /lower-case UUID/],
  ['list: an unknown option', (c) => c.list({ sort: 'x' } as never), 'invalid_option', /list has no option "sort"/],
  ['list: an unknown state', (c) => c.list({ state: 'done' as never }), 'invalid_option', /state must be one of/],
  ['list: no page', (c) => c.list({ limit: 0 }), 'invalid_option', /limit must be a whole number from 1 to 200/],
  ['list: a forged cursor', (c) => c.list({ cursor: "'; --" }), 'invalid_option', /cursor must be a job id/],
  ['list: a tag that is no text', (c) => c.list({ tag: 1 as never }), 'invalid_option', /tag must be 1 to 100/],
  ['list: an unreadable filter', (c) => c.list({ filter: 'stat:x' }), 'invalid_filter', /did you mean "state"/],
  ['list: a filter that is none', (c) => c.list({ filter: 7 as never }), 'invalid_filter', /text or an object, got 7/],
  [
    'list: one thing said twice',
    (c) => c.list({ queue: 'a', filter: 'queue:b' }),
    'invalid_option',
    /queue is given beside a filter/,
  ],
  ['count: too many', (c) => c.count({ max: 100_001 }), 'invalid_option', /max must be a whole number from 1/],
  ['explain: an unknown job', (c) => c.explain(ID), 'job_not_found', /there is no job/],
  ['series: too far back', (c) => c.series({ since: '4d' }), 'invalid_option', /since must be between 10s and 3d/],
  ['series: steps too small', (c) => c.series({ since: '3d', step: '10s' }), 'invalid_option', /at most 500 points/],
  ['series: a hostile queue', (c) => c.series({ queue: '' }), 'invalid_name', /queue must be/],
  ['deadGroups: too many', (c) => c.deadGroups({ limit: 101 }), 'invalid_option', /limit must be/],
  ['audit: a forged page', (c) => c.audit({ before: 'x' as never }), 'invalid_option', /before must be/],
  ['audit: a job that is none', (c) => c.audit({ job: '7' }), 'invalid_option', /job must be a job id/],
  ['record: nothing', (c) => c.record({ action: '' }), 'invalid_option', /action must be 1 to 100/],
  [
    'record: a novel',
    (c) => c.record({ action: 'a', details: 'x'.repeat(10_001) }),
    'invalid_option',
    /details as JSON must be/,
  ],
  [
    'bulk: an unknown action',
    (c) => c.bulk({ action: 'drop' as never, filter: '' }),
    'invalid_option',
    /action must be/,
  ],
  ['bulk: an unreadable filter', (c) => c.bulk({ action: 'cancel', filter: 'x' }), 'invalid_filter', /key:value/],
  ['bulk: no pace', (c) => c.bulk({ action: 'cancel', filter: '', perSecond: 0 }), 'invalid_option', /perSecond must/],
  ['bulk: no limit', (c) => c.bulk({ action: 'cancel', filter: '', limit: 2e6 }), 'invalid_option', /limit must be/],
  [
    'bulk: jobs it cannot be done to',
    (c) => c.bulk({ action: 'requeue', filter: 'state:ready' }),
    'invalid_option',
    /requeue, which is for those that are dead; it asks for ready/,
  ],
  ['cancelBulk: an unknown one', (c) => c.cancelBulk(ID), 'bulk_not_found', /there is no bulk action/],
  ['createKey: no name', (c) => c.createKey({ name: '', scopes: ['read'] }), 'invalid_option', /name must be/],
  ['createKey: no scope', (c) => c.createKey({ name: 'a', scopes: [] }), 'invalid_option', /at least one scope/],
  [
    'createKey: an unknown scope',
    (c) => c.createKey({ name: 'a', scopes: ['root' as never] }),
    'invalid_option',
    /a scope must be one of 'read'/,
  ],
  [
    'createKey: no queue at all',
    (c) => c.createKey({ name: 'a', scopes: ['read'], queues: [] }),
    'invalid_option',
    /queues must be null for all/,
  ],
  [
    'createKey: two ends',
    (c) => c.createKey({ name: 'a', scopes: ['read'], expiresIn: 1, expiresAt: '2030-01-01T00:00Z' }),
    'invalid_option',
    /give one of them/,
  ],
  ['revokeKey: an unknown one', (c) => c.revokeKey('k'), 'key_not_found', /there is no API key "k"/],
  ['cancel: an unknown job', (c) => c.cancel(ID), 'job_not_found', /there is no job 0190a3c2/],
  ['cancel: a name of nobody', (c) => c.cancel(ID, { by: '' }), 'invalid_option', /by must be 1 to 200/],
  ['cancel: an unknown option', (c) => c.cancel(ID, { force: true } as never), 'invalid_option', /no option "force"/],
  ['requeue: an unknown job', (c) => c.requeue(ID), 'job_not_found', /there is no job/],
  [
    'requeue: neither id nor filter',
    (c) => c.requeue(7 as never),
    'invalid_option',
    /id or \{ filter, limit \}, got 7/,
  ],
  ['requeue: many without a filter', (c) => c.requeue({} as never), 'invalid_option', /filter must be an object/],
  ['requeue: a filter by state', (c) => c.requeue({ filter: { state: 'dead' } as never }), 'invalid_option', /"state"/],
  ['requeue: a filter of others', (c) => c.requeue({ filter: 'state:ready' }), 'invalid_option', /is for dead jobs/],
  ['requeue: no limit at all', (c) => c.requeue({ filter: {}, limit: 1e9 }), 'invalid_option', /limit must be/],
  ['discard: an unknown job', (c) => c.discard(ID), 'job_not_found', /there is no job/],
  ['delete: an unknown option', (c) => c.delete(ID, { force: true } as never), 'invalid_option', /no option "force"/],
  [
    'enqueue: lifo that is no boolean',
    (c) => c.enqueue('a', null, { lifo: 1 } as never),
    'invalid_option',
    /lifo must be/,
  ],
  [
    'enqueue: lifo in a group',
    (c) => c.enqueue('a', null, { lifo: true, group: 'acme' }),
    'invalid_option',
    /leave out lifo or the group/,
  ],
  ['update: nothing', (c) => c.update(ID, {}), 'invalid_option', /needs something to change/],
  ['update: an unknown change', (c) => c.update(ID, { queue: 'b' } as never), 'invalid_option', /no option "queue"/],
  ['update: two times', (c) => c.update(ID, { runAt: null, delay: 1 }), 'invalid_option', /give one of them/],
  ['update: an unknown job', (c) => c.update(ID, { priority: 1 }), 'job_not_found', /there is no job/],
  ['update: a payload too large', (c) => c.update(ID, { payload: 'x'.repeat(2e6) }), 'payload_too_large', /2000002/],
  ['pause: a hostile queue', (c) => c.pause('a b'), 'invalid_name', /queue must be/],
  ['resume: a hostile queue', (c) => c.resume('../a'), 'invalid_name', /queue must be/],
  [
    'setQueue: an unknown setting',
    (c) => c.setQueue('a', { speed: 1 } as never),
    'invalid_option',
    /no option "speed"/,
  ],
  ['setQueue: a negative retention', (c) => c.setQueue('a', { retention: -1 }), 'invalid_option', /retention must be/],
  ['stats: a hostile queue', (c) => c.stats('*'), 'invalid_name', /queue must be/],
  ['wait: an id that is none', (c) => c.wait('x'), 'invalid_option', /id must be a job id/],
  ['wait: an endless timeout', (c) => c.wait(ID, { timeout: '365d' }), 'invalid_option', /timeout must be between/],
  ['wait: an unknown option', (c) => c.wait(ID, { poll: 1 } as never), 'invalid_option', /wait has no option "poll"/],
]

describe('enqueue refuses', () => {
  for (const [name, act, code, message] of enqueueCases) {
    test(name, async () => {
      const { client, store } = await openClient()

      const error = await failure(act(client))

      expect(error.code).toBe(code)
      expect(error.message).toMatch(message)
      expect(await count(store)).toBe(0)
    })
  }
})

describe('enqueue refuses a payload', () => {
  for (const [name, act, code, message] of payloadCases) {
    test(name, async () => {
      const { client, store } = await openClient()

      const error = await failure(act(client))

      expect(error.code).toBe(code)
      expect(error.message).toMatch(message)
      expect(error.message.length).toBeLessThan(500)
      expect(await count(store)).toBe(0)
    })
  }
})

describe('an operator is refused', () => {
  for (const [name, act, code, message] of operatorCases) {
    test(name, async () => {
      const { client, store } = await openClient()

      const error = await failure(act(client))

      expect(error.code).toBe(code)
      expect(error.message).toMatch(message)
      expect(await store.queues()).toEqual([])
    })
  }
})

test('a listener that is no function is refused', async () => {
  const { client } = await openClient()

  expect(() => client.on(null as never)).toThrow('a listener must be a function, got null')
})
