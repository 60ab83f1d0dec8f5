// Limits the audit lines about sign-ins to a few a minute for each key. A later line says how many had none, so repeated sign-ins
// cannot fill the log.

import type { Who } from './who.js'

const WINDOW_MS = 60_000
const LINES_OF_WINDOW = 5
const PRINCIPALS_MAX = 10_000

interface Window {
  readonly beganMs: number
  lines: number
  /** Sign-ins without a line so far. */
  left: number
}

export class SignIns {
  readonly #now: () => number
  readonly #windows = new Map<string, Window>()

  constructor(now: () => number) {
    this.#now = now
  }

  /** The details for this sign-in's audit line, or null when it gets no line. */
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
