import { describe, expect, test } from 'vitest'
import { openStage, work } from './stage.js'

// A worker that goes on while the store takes no settlement keeps every result in memory, and all of it runs again if it dies.
describe('while the store takes no settlement', () => {
  test.each([
    { concurrency: 1, resultBytes: 10, jobs: 3_000, most: 1_002 + 1 },
    { concurrency: 10, resultBytes: 10, jobs: 3_000, most: 1_020 + 10 },
    { concurrency: 10, resultBytes: 1_000_000, jobs: 100, most: 17 + 10 },
  ])(
    'a worker with $concurrency slots and results of $resultBytes bytes stops starting jobs, and goes on afterwards',
    async ({ concurrency, resultBytes, jobs, most }) => {
      const stage = openStage()
      for (let count = 0; count < jobs; count++) await stage.enqueue()
      const result = 'x'.repeat(resultBytes)
      let runs = 0
      const worker = stage.worker({
        concurrency,
        handlers: [
          work(() => {
            runs++
            return result
          }),
        ],
      })

      stage.fail(['settle'])
      await worker.start()
      await stage.clock.advance(5_000)
      const during = runs
      stage.heal()
      await stage.clock.advance(60_000)
      await worker.stop()

      expect(during).toBeGreaterThanOrEqual(most - concurrency - 1)
      expect(during).toBeLessThanOrEqual(most)
      expect(runs).toBe(jobs)
    },
  )
})
