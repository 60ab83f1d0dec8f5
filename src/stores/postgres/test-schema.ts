// A PostgreSQL store for one test: a schema of its own, the test's clock, and nothing left of it afterwards. ◄── ../../testing

import { randomBytes } from 'node:crypto'
import pg from 'pg'
import type { Clock } from '../../core/ports.js'
import type { Store } from '../../core/store.js'
import { postgresStore } from './index.js'

/** Opens a store in a new schema, by the time of `clock`. Closing it drops the schema. */
export async function openTestSchema(url: string, clock: Clock): Promise<{ store: Store; schema: string }> {
  const schema = `holdfast_test_${randomBytes(6).toString('hex')}`
  const drop = () => dropSchema(url, schema)
  try {
    const store = await postgresStore(url, { schema, clock })
    return { store: { ...store, close: () => store.close().finally(drop) }, schema }
  } catch (error) {
    // What the migrations had made by then.
    await drop().catch(() => {})
    throw error
  }
}

async function dropSchema(url: string, schema: string): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    await client.query(`DROP SCHEMA IF EXISTS "${schema}" CASCADE`)
  } finally {
    await client.end()
  }
}
