// The effects of handlers, each applied once in one of two ways: in one transaction with the settlement, or outside it behind a
// unique key.

import pg from 'pg'
import type { JobContext } from '../../src/core/definition.js'
import type { GeneratedPayload } from '../gen/mix.js'

const CONNECTIONS = 8
const OUTSIDE = `
INSERT INTO experiment.effects (seq, sort, id)
VALUES ($1, 'outside', $2)
    ON CONFLICT DO NOTHING`
const INSIDE = "INSERT INTO experiment.effects (seq, sort, id) VALUES ($1, 'in transaction', $2)"

export class Effects {
  /** How often an effect was skipped because an earlier run of its job had applied it. */
  repeated = 0
  readonly #pool: pg.Pool

  constructor(url: string) {
    this.#pool = new pg.Pool({ connectionString: url, max: CONNECTIONS, application_name: 'experiment effects' })
    // A connection that breaks while it is idle is replaced at its next use.
    this.#pool.on('error', () => {})
  }

  async apply({ seq, effect }: GeneratedPayload, ctx: JobContext): Promise<void> {
    if (effect === 'in transaction') return this.#applyInside(seq, ctx)
    const { rowCount } = await this.#pool.query(OUTSIDE, [seq, ctx.id])
    if (rowCount === 0) this.repeated++
  }

  async #applyInside(seq: number, ctx: JobContext): Promise<void> {
    const client = await this.#pool.connect()
    try {
      await client.query('BEGIN')
      await client.query(INSIDE, [seq, ctx.id])
      await ctx.complete(client)
      await client.query('COMMIT')
    } catch (error) {
      await client.query('ROLLBACK').catch(() => {})
      throw error
    } finally {
      client.release()
    }
  }

  close(): Promise<void> {
    return this.#pool.end()
  }
}
