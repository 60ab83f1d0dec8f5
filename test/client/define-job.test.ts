import * as v from 'valibot'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { defineJob } from '../../src/client/define-job.js'
import { HoldfastError } from '../../src/core/errors.js'

function raised(define: () => unknown): HoldfastError {
  try {
    define()
  } catch (error) {
    if (error instanceof HoldfastError) return error
  }
  throw new Error('it was expected to raise a HoldfastError and did not')
}

describe('a definition', () => {
  test('has a queue, a priority and a version by default', () => {
    const definition = defineJob('send_email')

    expect(definition).toMatchObject({ type: 'send_email', queue: 'default', priority: 0, version: 1, limits: {} })
    expect(definition.schema).toBeNull()
    expect(definition.tags).toEqual([])
  })

  test('keeps its options in the form stores keep', () => {
    const definition = defineJob('send_email', {
      queue: 'email',
      priority: -5,
      maxAttempts: 10,
      timeout: '30s',
      maxAge: null,
      retry: { backoff: 'linear', base: '2s', cap: '1m' },
      tags: ['mail', 'mail'],
    })

    expect(definition).toMatchObject({ queue: 'email', priority: -5, tags: ['mail'] })
    expect(definition.limits).toEqual({
      maxAttempts: 10,
      timeoutMs: 30_000,
      maxAgeMs: null,
      retry: { backoff: 'linear', baseMs: 2_000, capMs: 60_000, jitter: true },
    })
  })

  test('binds a handler to itself', () => {
    const definition = defineJob('resize')
    const run = () => 'done'

    const handler = definition.handle(run)

    expect(handler.definition).toBe(definition)
    expect(handler.run).toBe(run)
  })

  test('takes schemas of zod and of valibot', () => {
    expect(defineJob('a', { input: z.object({ to: z.string() }) }).schema).not.toBeNull()
    expect(defineJob('b', { input: v.object({ to: v.string() }) }).schema).not.toBeNull()
  })

  test('knows how older payloads are lifted', () => {
    const definition = defineJob('a', { version: 3, upgrade: { 1: (old: string) => ({ old }), 2: (old) => old } })

    expect([...definition.upgrades.keys()]).toEqual([1, 2])
    expect(definition.upgrades.get(1)?.('x')).toEqual({ old: 'x' })
  })

  test('may leave out upgrades from versions nobody has any more', () => {
    const definition = defineJob('a', { version: 4, upgrade: { 3: (old) => old } })

    expect([...definition.upgrades.keys()]).toEqual([3])
  })

  test('cannot be changed', () => {
    const definition = defineJob('a')

    expect(Object.isFrozen(definition)).toBe(true)
  })
})

describe('a definition that cannot work is refused immediately', () => {
  const cases: [name: string, define: () => unknown, code: string, message: RegExp][] = [
    ['an empty type', () => defineJob(''), 'invalid_name', /^type must be 1 to 100 characters/],
    ['a type with hostile characters', () => defineJob('a"; DROP TABLE jobs'), 'invalid_name', /^type must be/],
    ['a type that is no text', () => defineJob(7 as never), 'invalid_name', /got 7$/],
    ['a queue with a line break', () => defineJob('a', { queue: 'a\nb' }), 'invalid_name', /^queue must be/],
    ['an unknown option', () => defineJob('a', { quue: 'x' } as never), 'invalid_option', /has no option "quue"/],
    ['options that are no object', () => defineJob('a', 7 as never), 'invalid_option', /must be an object, got 7/],
    ['a priority beyond its bounds', () => defineJob('a', { priority: 32_768 }), 'invalid_option', /-32768 to 32767/],
    ['no attempts', () => defineJob('a', { maxAttempts: 0 }), 'invalid_option', /maxAttempts must be a whole number/],
    ['half an attempt', () => defineJob('a', { maxAttempts: 1.5 }), 'invalid_option', /maxAttempts/],
    ['a timeout of nothing', () => defineJob('a', { timeout: 0 }), 'invalid_option', /timeout must be between/],
    [
      'a timeout in words',
      () => defineJob('a', { timeout: 'soon' as never }),
      'invalid_option',
      /timeout must be a dur/,
    ],
    ['a negative age', () => defineJob('a', { maxAge: -1 }), 'invalid_option', /maxAge must be between/],
    [
      'an unknown backoff',
      () => defineJob('a', { retry: { backoff: 'x' as never } }),
      'invalid_option',
      /retry.backoff/,
    ],
    ['a cap below the base', () => defineJob('a', { retry: { base: '2s', cap: '1s' } }), 'invalid_option', /retry.cap/],
    ['an unknown retry option', () => defineJob('a', { retry: { max: 1 } as never }), 'invalid_option', /"max"/],
    ['a tag that is no text', () => defineJob('a', { tags: [1] as never }), 'invalid_option', /a tag must be/],
    ['a schema that is none', () => defineJob('a', { input: {} as never }), 'invalid_option', /Standard Schema/],
    ['a version below one', () => defineJob('a', { version: 0 }), 'invalid_option', /version must be/],
    [
      'an upgrade without a version',
      () => defineJob('a', { upgrade: { 1: (old) => old } }),
      'invalid_option',
      /set version as well/,
    ],
    [
      'an upgrade from its own version',
      () => defineJob('a', { version: 2, upgrade: { 2: (old) => old } }),
      'invalid_option',
      /has no option "2"/,
    ],
    [
      'upgrades with a gap',
      () => defineJob('a', { version: 4, upgrade: { 1: (old) => old, 3: (old) => old } }),
      'invalid_option',
      /no step from 2/,
    ],
    [
      'an upgrade that is no function',
      () => defineJob('a', { version: 2, upgrade: { 1: 'x' as never } }),
      'invalid_option',
      /upgrade from 1 of "a" must be a function/,
    ],
    [
      'retryable that is no function',
      () => defineJob('a', { retryable: true as never }),
      'invalid_option',
      /retryable/,
    ],
    [
      'a handler that is no function',
      () => defineJob('a').handle(null as never),
      'invalid_option',
      /the handler of "a"/,
    ],
  ]

  for (const [name, define, code, message] of cases) {
    test(name, () => {
      const error = raised(define)

      expect(error.code).toBe(code)
      expect(error.message).toMatch(message)
    })
  }
})
