// Bugs of flow control that are planted into the PostgreSQL store: each is found. A search that does not find them proves nothing by
// finding none in the store as it is.

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { dropSchema, testServerUrl } from '../support/postgres.js'
import { FLOW_BUGS, type FlowBug } from './flow-bugs.js'
import { type Found, huntFlow } from './flow-hunt.js'

const url = testServerUrl()
/** Two searches at a time, each in a schema of its own. */
const schemas = [1, 2].map((number) => `flow_bugs_${process.pid}_${number}`)
const TEST_MS = 600_000
/** Set HOLDFAST_FLOW_BUGS=all to hunt those too that take long. */
const BUGS = FLOW_BUGS.filter(({ takesLong }) => takesLong !== true || process.env.HOLDFAST_FLOW_BUGS === 'all')

describe('flow control on PostgreSQL', () => {
  beforeAll(async () => {
    for (const schema of schemas) await (await postgresStore(url, { schema })).close()
  })
  afterAll(() => Promise.all(schemas.map((schema) => dropSchema(url, schema))))

  test('concurrent callers with open transactions pass no limit, keep every order and leave no job behind', {
    timeout: TEST_MS,
  }, async () => {
    const found = await huntFlow({ url, schema: schemas[0]! }, null, { by: 'race', tries: 2 })

    expect(found).toMatchObject({ problem: null, after: 2 })
  })

  test(`each of ${BUGS.length} planted bugs is found`, { timeout: TEST_MS }, async () => {
    const found = await huntAll(BUGS)

    expect(found.filter(({ problem }) => problem === null)).toEqual([])
    expect(found.length).toBe(BUGS.length)
  })
})

async function huntAll(bugs: readonly FlowBug[]): Promise<Found[]> {
  const left = [...bugs]
  const found: Found[] = []
  await Promise.all(
    schemas.map(async (schema) => {
      for (let bug = left.shift(); bug !== undefined; bug = left.shift()) {
        found.push(await huntFlow({ url, schema }, bug, { by: bug.by }))
      }
    }),
  )
  return found
}
