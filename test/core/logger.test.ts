import { describe, expect, test } from 'vitest'
import type { HoldfastEvent } from '../../src/core/events.js'
import { EventLog, type Logger, levelOf } from '../../src/core/logger.js'
import { openHoldfast } from '../../src/index.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import { systemPorts } from '../../src/system-ports.js'

interface Entry {
  readonly level: string
  readonly facts: Readonly<Record<string, unknown>>
  readonly message: string
}

function gathering(): { readonly logger: Logger; readonly entries: Entry[] } {
  const entries: Entry[] = []
  const take = (level: string) => (facts: Readonly<Record<string, unknown>>, message: string) => {
    entries.push({ level, facts, message })
  }
  return { logger: { debug: take('debug'), info: take('info'), warn: take('warn'), error: take('error') }, entries }
}

const settled = (state: 'succeeded' | 'retrying' | 'dead'): HoldfastEvent => ({
  ...{ name: 'job.settled', id: 'a', type: 'greet', queue: 'q', state, reason: null, delayMs: null },
})

describe('levels', () => {
  test('what happens all the time is debug, a retry is info, a death is an error', () => {
    expect([settled('succeeded'), settled('retrying'), settled('dead')].map(levelOf)).toEqual([
      'debug',
      'info',
      'error',
    ])
  })

  test('a store that stays away is an error once for each activity, and again after it was back', () => {
    const { logger, entries } = gathering()
    const log = new EventLog(logger)
    const failed: HoldfastEvent = { name: 'store.failed', during: 'claim', error: new Error('away') }

    for (const event of [failed, failed, { ...failed, during: 'settle' }] as const) log.receive(event)
    log.receive({ name: 'store.recovered', during: 'claim', afterMs: 5 })
    log.receive(failed)

    expect(entries.map(({ level }) => level)).toEqual(['error', 'debug', 'error', 'info', 'error'])
    expect(entries[0]!.facts).toEqual({ event: 'store.failed', during: 'claim', error: 'away' })
  })
})

describe('the option logger', () => {
  test('gets a line for what happens to a job, without its payload', async () => {
    const { logger, entries } = gathering()
    const holdfast = await openHoldfast(memoryStore({ clock: systemPorts.clock }), { logger, upkeep: false })

    await holdfast.enqueue('greet', { secret: 'CANARY' })
    await holdfast.close()

    expect(entries).toContainEqual(
      expect.objectContaining({
        level: 'debug',
        facts: expect.objectContaining({ event: 'enqueue.answered', count: 1 }),
      }),
    )
    expect(JSON.stringify(entries)).not.toContain('CANARY')
  })

  test.each([{}, 'console', { info: () => {} }])('%o is refused', async (logger) => {
    const opening = openHoldfast(memoryStore({ clock: systemPorts.clock }), { logger: logger as never })

    await expect(opening).rejects.toMatchObject({ code: 'invalid_option' })
  })
})
