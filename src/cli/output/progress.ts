// A progress bar on stderr. A terminal gets one line that is redrawn; elsewhere a new line every few seconds.

import type { Output } from './terminal.js'
import { spanText } from './times.js'

const DRAW_MS = 100
const LINE_MS = 5_000
const BAR_WIDTH = 24

/** A progress bar. end() removes it. */
export class Progress {
  readonly #out: Output
  readonly #startedMs = performance.now()
  #drawnMs = Number.NEGATIVE_INFINITY
  #isDrawn = false

  constructor(out: Output) {
    this.#out = out
    // A bar that ends within seconds needs no line.
    if (!out.isTerminal) this.#drawnMs = this.#startedMs
  }

  /** `total` is null when it is not known. */
  update(done: number, total: number | null): void {
    const nowMs = performance.now()
    if (nowMs - this.#drawnMs < (this.#out.isTerminal ? DRAW_MS : LINE_MS)) return
    this.#drawnMs = nowMs
    const text = progressText(done, total, nowMs - this.#startedMs)
    if (this.#out.isTerminal) {
      this.#isDrawn = true
      this.#out.write(`\r\u001b[K${text}`)
    } else this.#out.line(text)
  }

  /** Removes the bar. */
  end(): void {
    if (this.#isDrawn) this.#out.write('\r\u001b[K')
    this.#isDrawn = false
  }
}

/** [=====>   ] 61% 6,100/10,000 · 2,310/s · ETA 2 s */
export function progressText(done: number, total: number | null, tookMs: number): string {
  const perSecond = tookMs > 0 ? (done * 1_000) / tookMs : 0
  const rate = `${Math.round(perSecond).toLocaleString('en')}/s`
  if (total === null || total < 1) return `${done.toLocaleString('en')} · ${rate}`
  const share = Math.min(1, done / total)
  const filled = Math.round(share * BAR_WIDTH)
  const bar = `${'='.repeat(Math.max(0, filled - 1))}${filled > 0 ? '>' : ''}`.padEnd(BAR_WIDTH)
  const left = perSecond > 0 ? ` · ETA ${spanText(((total - Math.min(done, total)) / perSecond) * 1_000)}` : ''
  const counts = `${done.toLocaleString('en')}/${total.toLocaleString('en')}`
  return `[${bar}] ${Math.floor(share * 100)}% ${counts} · ${rate}${left}`
}
