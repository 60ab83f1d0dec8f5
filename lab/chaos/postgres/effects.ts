// Effects in tables of the store's own server.

import pg from 'pg'
import type { Effects } from '../effects.js'
import { WITNESS } from './watch.js'

export function postgresEffects(url: string): Effects {
  const pool = new pg.Pool({
    ...{ connectionString: url, max: 8, application_name: 'chaos effects' },
    ...{ connectionTimeoutMillis: 3_000, query_timeout: 3_000, idleTimeoutMillis: 5_000 },
  })
  pool.on('error', () => {})
  // Also for a connection that is leaving the pool: if the server ends it then, only this listener receives the error.
  pool.on('connect', (client) => client.on('error', () => {}))
  return {
    async outside({ id, fence, attempt }) {
      await pool.query(`INSERT INTO ${WITNESS}.effects_outside VALUES ($1, $2, $3)`, [id, fence, attempt])
    },
    async inside(ctx) {
      const client = await pool.connect()
      let failed: Error | undefined
      const note = (error: Error) => {
        failed = error
      }
      client.on('error', note)
      try {
        await client.query('BEGIN')
        const values = [ctx.id, ctx.fence, ctx.attempt]
        await client.query(`INSERT INTO ${WITNESS}.effects_inside VALUES ($1, $2, $3)`, values)
        await ctx.complete(client)
        await client.query('COMMIT')
      } catch (error) {
        failed = error instanceof Error ? error : new Error(String(error))
        throw error
      } finally {
        client.off('error', note)
        // A connection whose transaction failed is not used again: whatever was open on it is rolled back with its end.
        client.release(failed)
      }
    },
    async rollBack(ctx, openMs) {
      const client = await pool.connect()
      let failed: Error | true = true
      try {
        await client.query('BEGIN')
        await ctx.complete(client)
        await new Promise((resolve) => setTimeout(resolve, openMs))
        await client.query('ROLLBACK')
      } catch (error) {
        failed = error instanceof Error ? error : new Error(String(error))
      } finally {
        client.release(failed)
      }
    },
  }
}
