// The terminal while `top` has it: another page, no cursor, keys read one by one. It is given back whatever happens.

import type { Output } from '../terminal.js'

const ENTER = '\u001b[?1049h\u001b[?25l\u001b[?7l'
const LEAVE = '\u001b[?7h\u001b[?25h\u001b[?1049l'
const HOME = '\u001b[H'
const REST_OF_LINE = '\u001b[K'
const REST_OF_PAGE = '\u001b[J'

export class Screen {
  readonly #out: Output
  readonly #onKey: (key: string) => void
  readonly #leave = () => this.close()
  #isOpen = true

  /** Takes the terminal. `onKey` gets what is typed; Ctrl-C as \u0003. */
  constructor(out: Output, onKey: (key: string) => void) {
    this.#out = out
    this.#onKey = onKey
    out.write(ENTER)
    if (process.stdin.isTTY) {
      process.stdin.setRawMode(true)
      process.stdin.setEncoding('utf8').on('data', this.#hear).resume()
    }
    process.once('exit', this.#leave)
  }

  readonly #hear = (text: string | Buffer): void => {
    for (const key of String(text)) this.#onKey(key)
  }

  /** Draws over what was there, without a moment in which there is nothing. */
  draw(lines: readonly string[]): void {
    if (this.#isOpen) this.#out.write(`${HOME}${lines.map((line) => line + REST_OF_LINE).join('\r\n')}${REST_OF_PAGE}`)
  }

  /** Gives the terminal back. */
  close(): void {
    if (!this.#isOpen) return
    this.#isOpen = false
    process.off('exit', this.#leave)
    if (process.stdin.isTTY) {
      process.stdin.off('data', this.#hear).pause()
      process.stdin.setRawMode(false)
    }
    this.#out.write(LEAVE)
  }
}
