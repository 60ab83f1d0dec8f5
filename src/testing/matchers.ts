// Assertions as matchers, for `expect.extend(…)` of Vitest and Jest. Those of node:test call assertEnqueued themselves.

import type { JobDefinition } from '../core/definition.js'
import type { Holdfast } from '../holdfast.js'
import { assertEnqueued, type EnqueuedMatch } from './assert-enqueued.js'

/** What a matcher of Vitest and Jest answers. */
export interface MatcherAnswer {
  readonly pass: boolean
  readonly message: () => string
}

/**
 * The matchers.
 *
 * @example
 * expect.extend(holdfastMatchers)
 * await expect(holdfast).toHaveEnqueued(sendEmail, { payload: { to: 'ann@example.com' } })
 */
export const holdfastMatchers: {
  toHaveEnqueued(holdfast: Holdfast, job: JobDefinition | string, match?: EnqueuedMatch): Promise<MatcherAnswer>
} = {
  async toHaveEnqueued(holdfast, job, match = {}) {
    try {
      const found = await assertEnqueued(holdfast, job, match)
      const type = typeof job === 'string' ? job : job.type
      return { pass: true, message: () => `expected no job "${type}" like that to be enqueued, found ${found.length}` }
    } catch (error) {
      // A mistake in the call is not a failed assertion, and .not must not turn it into a success.
      if ((error as { code?: unknown }).code !== 'ERR_ASSERTION') throw error
      return { pass: false, message: () => (error as Error).message }
    }
  },
}
