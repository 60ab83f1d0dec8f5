import { describe, expect, test } from 'vitest'
import { checkHistory } from '../../lab/history/check.js'
import { validHistory } from '../support/histories.js'

describe('the history checker, on valid histories', () => {
  test('finds nothing in 1,200 histories made by seed', () => {
    const counts = { claims: 0, rescues: 0, retries: 0, releases: 0, cancelled: 0, ticks: 0, requeues: 0 }

    for (let seed = 1; seed <= 1_200; seed++) {
      const verdict = checkHistory(validHistory(seed))

      expect(verdict.violations, `seed ${seed}`).toEqual([])
      expect(verdict.counted, `seed ${seed}`).toEqual({ ok: true, reasons: [] })
      counts.claims += verdict.counts.claims
      counts.rescues += verdict.counts.rescues
      counts.retries += verdict.counts.retries
      counts.releases += verdict.counts.releases
      counts.cancelled += verdict.counts.cancelled
      counts.ticks += verdict.counts.ticks
      counts.requeues += verdict.redeliveries.afterRequeue
    }

    // A history with few events proves little.
    for (const [what, count] of Object.entries(counts)) expect(count, what).toBeGreaterThan(500)
  }, 60_000)

  test('reads the events of one witness in the order of the store, in whatever order they arrive', () => {
    const events = validHistory(7)

    const verdict = checkHistory(
      [...events].reverse().filter((event) => !('process' in event && event.ev === 'started')),
    )

    expect(verdict.violations).toEqual([])
  })
})
