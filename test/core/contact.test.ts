import { describe, expect, test } from 'vitest'
import { Contact } from '../../src/core/contact.js'
import type { HoldfastEvent } from '../../src/core/events.js'
import { manualClock } from '../../src/testing/manual-clock.js'
import { seededRandom } from '../../src/testing/seeded-random.js'

function openContact(chance: number | null = null) {
  const clock = manualClock()
  const events: HoldfastEvent[] = []
  const random = chance === null ? seededRandom() : { ...seededRandom(), float: () => chance }
  const ports = { clock, timers: clock.timers, random }
  const contact = new Contact({ ports, emit: (event) => events.push(event) }, 'claim')
  return { contact, clock, events }
}

describe('Contact', () => {
  test('waits double from 100 ms to one second', () => {
    const { contact } = openContact(1)

    const waits = Array.from({ length: 6 }, () => contact.lost(new Error('down')))

    expect(waits).toEqual([100, 200, 400, 800, 1_000, 1_000])
  })

  test('jitter takes at most half of a wait away', () => {
    const { contact } = openContact(0)

    const waits = Array.from({ length: 15 }, () => contact.lost(new Error('down')))

    expect(waits.slice(0, 5)).toEqual([50, 100, 200, 400, 500])
    expect(waits.at(-1)).toBe(500)
  })

  test('every failed call is reported, the recovery once with its length', async () => {
    const { contact, clock, events } = openContact()

    contact.lost(new Error('down'))
    await clock.advance(300)
    contact.lost(new Error('still down'))
    await clock.advance(700)
    contact.found()
    contact.found()

    expect(events).toMatchObject([
      { name: 'store.failed', during: 'claim', error: { message: 'down' } },
      { name: 'store.failed', during: 'claim', error: { message: 'still down' } },
      { name: 'store.recovered', during: 'claim', afterMs: 1_000 },
    ])
  })

  test('a second outage begins anew', async () => {
    const { contact, clock, events } = openContact(1)
    contact.lost(new Error('down'))
    contact.lost(new Error('down'))
    contact.found()

    const waitMs = contact.lost(new Error('down again'))
    await clock.advance(50)
    contact.found()

    expect(waitMs).toBe(100)
    expect(events.at(-1)).toMatchObject({ name: 'store.recovered', afterMs: 50 })
  })

  test('it is lost from a failed call until one succeeds', () => {
    const { contact } = openContact()

    const before = contact.isLost
    contact.lost(new Error('down'))
    const during = contact.isLost
    contact.found()

    expect([before, during, contact.isLost]).toEqual([false, true, false])
  })

  test('what was thrown is reported as an error, whatever it was', () => {
    const { contact, events } = openContact()

    contact.lost('no route')

    expect(events).toMatchObject([{ error: expect.any(Error) }])
    expect(events).toMatchObject([{ error: { message: 'no route' } }])
  })
})
