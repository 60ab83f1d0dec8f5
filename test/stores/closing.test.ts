// A closed store reports that it is closed. Apart from the conformance suite, whose stores may share connections that stay open.

import { afterAll, describe, expect, test } from 'vitest'
import type { Store } from '../../src/core/store.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { newJob, WORKER } from '../../src/testing/store-suite/samples.js'
import { codeOf } from '../../src/testing/store-suite/steps.js'
import { dropSchema, testServerUrl } from '../support/postgres.js'

const url = testServerUrl()
const schema = `closing_${process.pid}`

const STORES: Readonly<Record<string, () => Promise<Store>>> = {
  memory: async () => memoryStore(),
  PostgreSQL: () => postgresStore(url, { schema }),
}

afterAll(() => dropSchema(url, schema))

describe.each(Object.entries(STORES))('a closed %s store', (_, openStore) => {
  test('refuses to write', async () => {
    const store = await openStore()

    await store.close()

    expect(await codeOf(store.enqueue([newJob()]))).toBe('closed')
  })

  test('refuses to look', async () => {
    const store = await openStore()

    await store.close()

    expect(await codeOf(store.get(newJob().id))).toBe('closed')
  })

  test('refuses after it was used', async () => {
    const store = await openStore()
    await store.enqueue([newJob()])

    await store.close()

    expect(await codeOf(store.leave(WORKER))).toBe('closed')
  })

  test('may be closed again', async () => {
    const store = await openStore()
    await store.close()

    expect(await codeOf(store.close())).toBe(null)
  })
})
