// Which sign-ins get a line in the audit log of their own: a few a minute for each key. One that signs in again and again gets a
// line that says how often, so that it cannot fill the log.

import type { Who } from './who.js'

const WINDOW_MS = 60_000
const LINES_OF_WINDOW = 5
const PRINCIPALS_MAX = 10_000

interface Window {
  readonly beganMs: number
  lines: number
  /** Sign-ins without a line, of this window and those before it. */
  left: number
}

export class SignIns {
  readonly #now: () => number
  readonly #windows = new Map<string, Window>()

  constructor(now: () => number) {
    this.#now = now
  }

  /** What the line of this sign-in says beyond that it was one, or null when it gets none. */
  note({ principal }: Pick<Who, 'principal'>): { readonly details?: unknown } | null {
    const window = this.#windowOf(principal)
    if (window.lines >= LINES_OF_WINDOW) {
      window.left++
      return null
    }
    window.lines++
    const { left } = window
    window.left = 0
    return left === 0 ? {} : { details: { before: left } }
  }

  #windowOf(principal: string): Window {
    const known = this.#windows.get(principal)
    const nowMs = this.#now()
    if (known !== undefined && nowMs - known.beganMs < WINDOW_MS) return known
    this.#windows.delete(principal)
    if (this.#windows.size >= PRINCIPALS_MAX) this.#windows.delete(this.#windows.keys().next().value!)
    const begun = { beganMs: nowMs, lines: 0, left: known?.left ?? 0 }
    this.#windows.set(principal, begun)
    return begun
  }
}
