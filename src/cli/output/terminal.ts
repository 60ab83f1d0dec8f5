// The two output streams, and text that is safe to show: the content of a job can never move a cursor or set a colour. Widths
// are counted in the columns of a terminal.

import { styleText } from 'node:util'

export type Format = Parameters<typeof styleText>[0]

/** When colour is used: where the stream supports it, always, or never. */
export const COLOR_CHOICES = ['auto', 'always', 'never'] as const
export type ColorChoice = (typeof COLOR_CHOICES)[number]

/** One of the two streams: stdout for data, stderr for people. */
export class Output {
  readonly #stream: NodeJS.WriteStream
  readonly #onGone: (() => void)[] = []
  #isGone = false
  #color: ColorChoice = 'auto'

  constructor(stream: NodeJS.WriteStream) {
    this.#stream = stream
    // The reader has left (`… | head`). Without a listener the error would end the process in the middle of its work.
    stream.on('error', () => {
      this.#isGone = true
      for (const run of this.#onGone.splice(0)) run()
    })
  }

  get isTerminal(): boolean {
    return this.#stream.isTTY === true
  }

  /** The width of the terminal; null when the stream is not one, and then nothing is wrapped or cut. */
  get columns(): number | null {
    return this.isTerminal && this.#stream.columns > 0 ? this.#stream.columns : null
  }

  /** The height of the terminal; null when the stream is not one. */
  get rows(): number | null {
    return this.isTerminal && this.#stream.rows > 0 ? this.#stream.rows : null
  }

  /** Sets the choice of --color. */
  setColor(choice: ColorChoice): void {
    this.#color = choice
  }

  /** Colours text if this stream supports colour: a terminal without NO_COLOR, or FORCE_COLOR. --color overrides both. */
  style(format: Format, text: string): string {
    if (this.#color === 'never') return text
    if (this.#color === 'always') return styleText(format, text, { validateStream: false })
    return styleText(format, text, { stream: this.#stream })
  }

  line(text = ''): void {
    this.write(`${text}\n`)
  }

  /** Writes text without a line break. */
  write(text: string): void {
    if (!this.#isGone) this.#stream.write(text)
  }

  /** Calls `run` when the terminal is resized. Returns a function that stops it. */
  onResize(run: () => void): () => void {
    this.#stream.on('resize', run)
    return () => this.#stream.off('resize', run)
  }

  /** Calls `run` when the stream has no reader any more. */
  onGone(run: () => void): void {
    this.#onGone.push(run)
  }

  /** Resolves when everything is written, or when the reader has left. */
  flush(): Promise<void> {
    if (this.#isGone) return Promise.resolve()
    return new Promise((resolve) => {
      this.onGone(resolve)
      this.#stream.write('', () => resolve())
    })
  }
}

// Control characters, and characters that reorder or hide text. Joiners stay: some writing systems need them.
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it looks for
const UNSAFE = /[\u0000-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g
const LONE_SURROGATE = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g
const SHORT: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' }

/** Text from a job or an error, safe to show: on one line, with control characters escaped. */
export function visible(text: string): string {
  return text.replace(UNSAFE, (unit) => SHORT[unit] ?? escapeUnit(unit)).replace(LONE_SURROGATE, escapeUnit)
}

/** A value as JSON, with control characters escaped: the same value for a program, harmless in a terminal. */
export function visibleJson(value: unknown, indent = 2): string {
  return harmlessJson(JSON.stringify(value, null, indent) ?? 'null')
}

/** Escapes control characters in JSON text. */
export function harmlessJson(text: string): string {
  // In JSON they occur inside strings only, where the escape means the same character. Line breaks belong to the layout.
  return text.replace(UNSAFE, (unit) => (unit === '\n' ? unit : escapeUnit(unit)))
}

function escapeUnit(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
}

const GRAPHEMES = new Intl.Segmenter('en', { granularity: 'grapheme' })
const WIDE =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|[\u{1b000}-\u{1b2ff}\u{20000}-\u{3fffd}]|\p{Emoji_Presentation}|\ufe0f/u
const MARKS_ONLY = /^\p{M}+$/u
const ASCII = /^[\u0020-\u007e]*$/

/** How many columns text takes in a terminal. */
export function widthOf(text: string): number {
  if (ASCII.test(text)) return text.length
  let width = 0
  for (const { segment } of GRAPHEMES.segment(text)) width += graphemeWidth(segment)
  return width
}

function graphemeWidth(grapheme: string): number {
  if (MARKS_ONLY.test(grapheme)) return 0
  return WIDE.test(grapheme) ? 2 : 1
}

/** Text with blanks up to a width; longer text stays as it is. */
export function padTo(text: string, width: number, side: 'left' | 'right' = 'left'): string {
  const blanks = ' '.repeat(Math.max(0, width - widthOf(text)))
  return side === 'left' ? text + blanks : blanks + text
}

/** Text in at most `width` columns; an ellipsis stands for what is cut off. */
export function cutTo(text: string, width: number): string {
  if (widthOf(text) <= width) return text
  if (width < 1) return ''
  const [kept = ''] = width === 1 ? [] : cut(text, width - 1)
  return `${widthOf(kept) < width ? kept : ''}…`
}

/** Text in lines of at most `width` columns, broken at blanks where possible. */
export function wrap(text: string, width: number): string[] {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(' ').flatMap((long) => cut(long, width))) {
    const longer = line === '' ? word : `${line} ${word}`
    if (widthOf(longer) <= width) line = longer
    else {
      lines.push(line)
      line = word
    }
  }
  return [...lines, line]
}

function cut(word: string, width: number): string[] {
  if (widthOf(word) <= width) return [word]
  const pieces: string[] = []
  let piece = ''
  for (const { segment } of GRAPHEMES.segment(word)) {
    if (piece !== '' && widthOf(piece) + graphemeWidth(segment) > width) {
      pieces.push(piece)
      piece = ''
    }
    piece += segment
  }
  return [...pieces, piece]
}
