// The full-screen mode of `top`: the alternate screen, no cursor, keys read one by one. close(), or the end of the process,
// restores the terminal.

import type { Output } from './terminal.js'

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

  /** Switches the terminal. `onKey` receives each key; Ctrl-C is \u0003. */
  constructor(out: Output, onKey: (key: string) => void) {
    this.#out = out
    this.#onKey = onKey
    out.write(ENTER)
    if (process.stdin.isTTY) {
      process.stdin.setRawMode(true)
      process.stdin.setEncoding('utf8').on('data', this.#onData).resume()
    }
    process.once('exit', this.#leave)
  }

  readonly #onData = (text: string | Buffer): void => {
    for (const key of String(text)) this.#onKey(key)
  }

  /** Draws over the last frame. It clears nothing before, so that the screen does not flicker. */
  draw(lines: readonly string[]): void {
    if (this.#isOpen) this.#out.write(`${HOME}${lines.map((line) => line + REST_OF_LINE).join('\r\n')}${REST_OF_PAGE}`)
  }

  /** Restores the terminal. */
  close(): void {
    if (!this.#isOpen) return
    this.#isOpen = false
    process.off('exit', this.#leave)
    if (process.stdin.isTTY) {
      process.stdin.off('data', this.#onData).pause()
      process.stdin.setRawMode(false)
    }
    this.#out.write(LEAVE)
  }
}
