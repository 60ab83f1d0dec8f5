// What a HoldfastError of a code looks like to an assertion.

import { expect } from 'vitest'
import type { ErrorCode } from '../../src/core/errors.js'

/** For `expect(…).toThrow(…)`: one of ours, with this code and, if given, this in its message. */
export function raised(code: ErrorCode, message: string | RegExp = ''): unknown {
  const said = typeof message === 'string' ? expect.stringContaining(message) : expect.stringMatching(message)
  return expect.objectContaining({ name: 'HoldfastError', code, message: said })
}
