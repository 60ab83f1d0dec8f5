// Where the command writes. Colour follows the stream it goes to; what jobs contain can never move a cursor or set a
// colour; widths are those a terminal shows.

import { styleText } from 'node:util'

export type Format = Parameters<typeof styleText>[0]

/** One of the two streams: stdout for what was asked for, stderr for what people should know. */
export class Output {
  readonly #stream: NodeJS.WriteStream
  readonly #onGone: (() => void)[] = []
  #isGone = false

  constructor(stream: NodeJS.WriteStream) {
    this.#stream = stream
    // Whoever read it has left (`… | head`). Without a listener that would end the process in the middle of something.
    stream.on('error', () => {
      this.#isGone = true
      for (const run of this.#onGone.splice(0)) run()
    })
  }

  get isTerminal(): boolean {
    return this.#stream.isTTY === true
  }

  /** How wide the terminal is; null where it is none, and nothing is wrapped or cut. */
  get columns(): number | null {
    return this.isTerminal && this.#stream.columns > 0 ? this.#stream.columns : null
  }

  /** Colours text where this stream shows colour: a terminal, unless NO_COLOR is set, or FORCE_COLOR. */
  style(format: Format, text: string): string {
    return styleText(format, text, { stream: this.#stream })
  }

  line(text = ''): void {
    if (!this.#isGone) this.#stream.write(`${text}\n`)
  }

  /** Calls `run` when nobody reads the stream any more. */
  onGone(run: () => void): void {
    this.#onGone.push(run)
  }

  /** Resolves when everything has been handed over, or cannot be. */
  flush(): Promise<void> {
    if (this.#isGone) return Promise.resolve()
    return new Promise((resolve) => {
      this.onGone(resolve)
      this.#stream.write('', () => resolve())
    })
  }
}

// Control characters of both sets, and the ones that reorder or hide what a reader sees. Joiners stay: scripts need them.
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it looks for
const UNSAFE = /[\u0000-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g
const LONE_SURROGATE = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g
const SHORT: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' }

/** Text from a job or an error as it may be shown: on one line, with everything a terminal would obey made visible. */
export function visible(text: string): string {
  return text.replace(UNSAFE, (unit) => SHORT[unit] ?? escapeUnit(unit)).replace(LONE_SURROGATE, escapeUnit)
}

/** A value as JSON that is the same value to a program and harmless to a terminal. */
export function visibleJson(value: unknown, indent = 2): string {
  const text = JSON.stringify(value, null, indent) ?? 'null'
  // Inside JSON these occur in strings only, where the escape means the same; line breaks are the layout's own.
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

/** Text in lines of at most `width` columns, broken at blanks where there are any. */
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
