// Payload search beside payloads that are large, or that PostgreSQL's text cannot hold.

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parseFilter } from '../../src/core/filter.js'
import { type Holdfast, openHoldfast } from '../../src/index.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { dropSchema, testServerUrl } from '../support/postgres.js'

const schema = `payload_search_${process.pid}`

describe('payload search', () => {
  let holdfast: Holdfast

  beforeAll(async () => {
    holdfast = await openHoldfast(await postgresStore(testServerUrl(), { schema }), { upkeep: false })
  })

  afterAll(async () => {
    await holdfast.close()
    await dropSchema(testServerUrl(), schema)
  })

  async function found(filter: string): Promise<readonly string[]> {
    const ids: string[] = []
    let cursor: string | null = null
    do {
      const page: Awaited<ReturnType<Holdfast['list']>> = await holdfast.list({ filter: parseFilter(filter), cursor })
      ids.push(...page.jobs.map(({ id }) => id))
      cursor = page.cursor
    } while (cursor !== null)
    return ids
  }

  test.each([
    ['NULs', '\u0000'],
    ['half characters', '\ud800'],
    ['backslashes before a u', '\\u0000'],
  ])('four payloads full of %s are searched like any other', async (name, text) => {
    const queue = name.replaceAll(' ', '_')
    const full = text.repeat(Math.floor(840_000 / (JSON.stringify(text).length - 2)))
    for (let index = 0; index < 4; index++) await holdfast.enqueue('big', { full, index }, { queue })
    const { id } = await holdfast.enqueue('small', { customer: 7 }, { queue })

    const terms = Array.from({ length: 15 }, (_, index) => `payload.none${index}:1`).join(' ')

    expect(await found(`queue:${queue} payload.customer:7`)).toEqual([id])
    expect(await found(`queue:${queue} payload.index:2`)).toHaveLength(1)
    expect(await found(`queue:${queue} ${terms}`)).toEqual([])
    expect(await holdfast.count({ filter: parseFilter(`queue:${queue} payload.customer:7`) })).toMatchObject({
      count: 1,
    })
  })

  test('a text with a NUL or half a character is no other text', async () => {
    await holdfast.enqueue('odd', { a: 'x\u0000', b: '\ud800', c: 'x\\u0000' }, { queue: 'odd' })

    expect(await found('queue:odd payload.a:"x\ufffd"')).toEqual([])
    expect(await found('queue:odd payload.b:"\ufffd"')).toEqual([])
    expect(await found('queue:odd payload.a:*')).toHaveLength(1)
    expect(
      await holdfast.count({ filter: { queues: ['odd'], payload: [{ path: ['c'], anyOf: ['x\\u0000'] }] } }),
    ).toEqual({ count: 1, isExact: true })
  })

  test('a page reads a bounded number of bytes and reports where the next goes on', async () => {
    const payload = { text: 'x'.repeat(1_000_000) }
    for (let batch = 0; batch < 5; batch++) {
      await holdfast.enqueueMany(Array.from({ length: 10 }, () => ['large', payload, { queue: 'large' }] as const))
    }
    const { id } = await holdfast.enqueue('small', { customer: 9 }, { queue: 'large' })
    const filter = parseFilter('queue:large payload.customer:9')

    const page = await holdfast.list({ filter })

    expect(page.jobs.map((job) => job.id)).toEqual([id])
    expect(page.searched).toBeLessThan(50)
    expect(page.cursor).not.toBeNull()
    expect(await found('queue:large payload.text:*')).toHaveLength(50)
  })
})
