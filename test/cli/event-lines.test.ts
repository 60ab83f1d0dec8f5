import { describe, expect, test } from 'vitest'
import { EventLines } from '../../src/cli/output/event-lines.js'
import type { Line } from '../../src/cli/output/lines.js'
import type { HoldfastEvent } from '../../src/core/events.js'

const job = { id: '01890000-0000-7000-8000-000000abcdef', type: 'send', queue: 'email' }

function linesOf(...events: HoldfastEvent[]): Line[] {
  const lines: Line[] = []
  const made = new EventLines((line) => lines.push(line))
  for (const event of events) made.onEvent(event)
  return lines
}

const ended = (outcome: string, error: string | null = null): HoldfastEvent => ({
  ...{ name: 'job.ended', ...job, attempt: 2, outcome, error },
  ranMs: 1_234,
})

const settled = (
  state: Extract<HoldfastEvent, { name: 'job.settled' }>['state'],
  more: object = {},
): HoldfastEvent => ({
  ...{ name: 'job.settled', ...job, state, reason: null, delayMs: null },
  ...more,
})

const failed = (during: string): HoldfastEvent => ({ name: 'store.failed', during, error: new Error('no server') })
const recovered = (during: string): HoldfastEvent => ({ name: 'store.recovered', during, afterMs: 2_500 })

describe('the line about a job', () => {
  test.each([
    { events: [ended('succeeded'), settled('succeeded')], text: 'succeeded in 1.2 s', tone: 'good' },
    {
      events: [ended('failed', 'boom\u001b[0m\nsecond line'), settled('retrying', { delayMs: 1_400 })],
      text: 'failed: boom\\u001b[0m · retry in 1.4 s (attempt 2)',
      tone: 'warning',
    },
    {
      events: [ended('failed', 'boom'), settled('dead', { reason: 'attempts' })],
      text: 'dead: boom · all its attempts are used up',
      tone: 'bad',
    },
    { events: [settled('dead', { reason: 'expired' })], text: 'dead: it is older than its max age', tone: 'bad' },
    {
      events: [ended('released'), settled('ready')],
      text: 'released unfinished; the attempt is not counted',
      tone: 'warning',
    },
    { events: [ended('cancelled'), settled('cancelled')], text: 'cancelled', tone: 'plain' },
  ])('$text', ({ events, text, tone }) => {
    expect(linesOf(...events)).toEqual([expect.objectContaining({ subject: 'send', id: job.id, text, tone })])
  })
})

describe('the store', () => {
  test('an outage is reported once, and its end once, however many activities notice it', () => {
    const lines = linesOf(
      ...[failed('claim'), failed('settle'), failed('claim')],
      ...[recovered('claim'), recovered('settle'), failed('claim')],
    )

    expect(lines.map(({ text }) => text)).toEqual([
      'no server · trying again',
      'back after 2.5 s',
      'no server · trying again',
    ])
  })
})
