// Wake-ups between processes, on a real server: who receives which.

import pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { StoreListener } from '../../src/core/store-listener.js'
import { WakeUps } from '../../src/stores/postgres/wake.js'
import { testServerUrl } from '../support/postgres.js'

const schema = `wakes_${process.pid}`
const LISTENING =
  "SELECT pid FROM pg_stat_activity WHERE application_name = 'holdfast receive wake-ups' AND query LIKE '%LISTEN%'"

describe('wake-ups', () => {
  let sql: pg.Client
  let here: WakeUps
  let there: WakeUps
  let notified: string[]

  beforeAll(async () => {
    sql = new pg.Client({ connectionString: testServerUrl() })
    await sql.connect()
    sql.on('notification', ({ payload }) => notified.push(payload ?? ''))
    await sql.query(`LISTEN "holdfast ${schema}"`)
  })
  afterAll(() => sql.end())

  const open = () =>
    new WakeUps({ settings: async () => ({ connectionString: testServerUrl() }), schema, connectMs: 5_000 })
  beforeEach(() => {
    notified = []
    here = open()
    there = open()
  })
  afterEach(() => Promise.all([here.close(), there.close()]))

  /** A listener of `here`, once it receives what `there` sends. */
  async function listening() {
    const heard: [string, boolean][] = []
    const cancels: string[] = []
    const listener: StoreListener = {
      ready: (queue, isOwnEnqueue) => void heard.push([queue, isOwnEnqueue]),
      cancel: (id) => void cancels.push(id),
    }
    here.listen(listener)
    await expect
      .poll(() => {
        there.ready('probe')
        return heard.length
      })
      .toBeGreaterThan(0)
    return { listener, heard, cancels }
  }

  /** Waits until the server has passed on all that was said before. */
  async function passedOn(): Promise<void> {
    there.ready('last')
    await expect.poll(() => notified.some((payload) => payload.endsWith('r last'))).toBe(true)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }

  test('tell an enqueue of the own process from one elsewhere', async () => {
    const { heard } = await listening()
    heard.length = 0

    here.enqueued('email', 1)
    here.ready('sms')
    there.enqueued('push', 1)
    await expect.poll(() => heard.map(([queue]) => queue)).toContain('push')

    expect(heard.filter(([queue]) => queue !== 'probe')).toEqual([
      ['email', true],
      ['sms', false],
      ['push', false],
    ])
  })

  test('of other processes do not reach a muted listener, and those of its own do', async () => {
    const { listener, heard } = await listening()
    await here.mute(listener, true)
    heard.length = 0

    there.ready('push')
    here.ready('email')
    await passedOn()

    expect(heard).toEqual([['email', false]])
  })

  test('are not sent to a process whose listeners are all muted', async () => {
    const { listener } = await listening()
    const { rows: before } = await sql.query(LISTENING)

    await here.mute(listener, true)

    const { rows: after } = await sql.query(`${LISTENING} AND query LIKE 'UNLISTEN%' AND pid = ANY ($1::int[])`, [
      before.map(({ pid }) => pid),
    ])
    expect(after).toHaveLength(1)
  })

  test('reach a listener from the moment it is no longer muted', async () => {
    const { listener, heard } = await listening()
    await here.mute(listener, true)
    await here.mute(listener, false)
    heard.length = 0

    there.ready('push')

    await expect.poll(() => heard.map(([queue]) => queue)).toContain('push')
  })

  test('reach the one listener that is not muted, and not the one beside it that is', async () => {
    const { listener, heard } = await listening()
    const others: string[] = []
    here.listen({ ready: (queue) => void others.push(queue) })
    await here.mute(listener, true)
    heard.length = 0

    there.ready('push')
    await expect.poll(() => others).toContain('push')

    expect(heard).toEqual([])
  })

  test('reach a process again whose muted listener has left, when another one comes', async () => {
    const heard: string[] = []
    const muted: StoreListener = { ready: () => {} }
    const leave = here.listen(muted)
    await here.mute(muted, true)
    leave()

    here.listen({ ready: (queue) => void heard.push(queue) })

    await expect
      .poll(() => {
        there.ready('push')
        return heard.length
      })
      .toBeGreaterThan(0)
  })
})
