import type { StandardSchemaV1 } from '@standard-schema/spec'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import type { JobDefinition } from '../../src/core/definition.js'
import { checkPayload, upgradePayload } from '../../src/core/payload.js'
import { raised } from './raises.js'

/** A schema that answers so to every value. */
function schemaOf(
  answer: StandardSchemaV1.Result<unknown> | Promise<StandardSchemaV1.Result<unknown>>,
): StandardSchemaV1 {
  return { '~standard': { version: 1, vendor: 'test', validate: () => answer } }
}

function definitionWith(version: number, upgrades: [number, (payload: unknown) => unknown][]): JobDefinition {
  return { type: 'send', version, upgrades: new Map(upgrades) } as unknown as JobDefinition
}

describe('checkPayload', () => {
  test('without a schema everything fits', () => {
    expect(checkPayload({ schema: null }, { a: 1 })).toEqual({ value: { a: 1 } })
  })

  test('the value is what the schema makes of it', () => {
    const schema = z.object({ count: z.coerce.number() })

    expect(checkPayload({ schema }, { count: '3' })).toEqual({ value: { count: 3 } })
  })

  test('a schema that takes its time is waited for', async () => {
    const fits = schemaOf(Promise.resolve({ value: 1 }))
    const fails = schemaOf(Promise.resolve({ issues: [{ message: 'too late' }] }))

    expect(await checkPayload({ schema: fits }, 1)).toEqual({ value: 1 })
    expect(await checkPayload({ schema: fails }, 1)).toEqual({ problem: 'too late' })
  })

  test('a problem says where it is', () => {
    const schema = schemaOf({
      issues: [
        { message: 'is required', path: ['to'] },
        { message: 'is no address', path: ['cc', 0, { key: 'mail' }] },
        { message: 'does not fit', path: [] },
      ],
    })

    expect(checkPayload({ schema }, {})).toEqual({ problem: 'to: is required; cc.0.mail: is no address; does not fit' })
  })

  test('of many problems ten are listed, and how many more there are', () => {
    const issues = Array.from({ length: 13 }, (_, index) => ({ message: `problem ${index}` }))

    const checked = checkPayload({ schema: schemaOf({ issues }) }, {})

    expect(checked).toEqual({ problem: expect.stringMatching(/^problem 0; .*; problem 9; and 3 more$/) })
  })
})

describe('upgradePayload', () => {
  test('a payload is lifted step by step to the current version', () => {
    const definition = definitionWith(3, [
      [1, (payload) => [payload, 'to 2']],
      [2, (payload) => [payload, 'to 3']],
    ])

    expect(upgradePayload(definition, 1, 'old')).toEqual([['old', 'to 2'], 'to 3'])
    expect(upgradePayload(definition, 2, 'old')).toEqual(['old', 'to 3'])
    expect(upgradePayload(definition, 3, 'new')).toBe('new')
  })

  test('a missing step is reported with both versions', () => {
    const definition = definitionWith(3, [[1, (payload) => payload]])

    expect(() => upgradePayload(definition, 1, {})).toThrow(
      raised('invalid_payload', 'has version 1, the definition is at 3 and has no upgrade from 2'),
    )
  })

  test.each([
    [new Error('no name'), 'threw: no name'],
    ['no name', 'threw: no name'],
    [null, 'threw: null'],
  ])('a step that throws is reported with what it threw: %#', (thrown, message) => {
    const upgrade = () => {
      throw thrown
    }

    expect(() => upgradePayload(definitionWith(2, [[1, upgrade]]), 1, {})).toThrow(raised('invalid_payload', message))
  })
})
