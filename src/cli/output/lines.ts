// Prints lines about jobs in columns: time, type, short id, what happened. A terminal gets colours and wrapped lines; a file
// or a pipe gets plain, whole lines.

import { shortId } from '../input/ids.js'
import { type Format, type Output, padTo, wrap } from './terminal.js'
import { clockText } from './times.js'

/** What a line means to its reader; a terminal shows it as a colour. */
export type Tone = 'quiet' | 'plain' | 'good' | 'warning' | 'bad'

/** One line: about a job, or about the worker, the store or a schedule. */
export interface Line {
  /** The job's type, or which part of the system it is about. */
  readonly subject: string
  readonly id: string | null
  readonly text: string
  readonly tone: Tone
  /** True for what happens all the time and needs no attention. */
  readonly isRoutine: boolean
}

const FORMATS: Readonly<Record<Tone, Format | null>> = {
  quiet: 'dim',
  plain: null,
  good: 'green',
  warning: 'yellow',
  bad: 'red',
}

const GAP = '  '
const SUBJECT_WIDTH_MIN = 8
const SUBJECT_WIDTH_MAX = 24
const ID_WIDTH = shortId('000000').length
// Narrower than this, an indented column is harder to read than none.
const TEXT_WIDTH_MIN = 20

/** Prints lines to one output. */
export class LinePrinter {
  readonly #output: Output
  readonly #subjectWidth: number

  /** `subjects` are the expected types: the column is as wide as the longest. */
  constructor(output: Output, subjects: readonly string[]) {
    this.#output = output
    const longest = Math.max(SUBJECT_WIDTH_MIN, ...subjects.map(({ length }) => length))
    this.#subjectWidth = Math.min(SUBJECT_WIDTH_MAX, longest)
  }

  /** `at` is when it happened. Default now. */
  print({ subject, id, text, tone }: Line, at: Date = new Date()): void {
    const out = this.#output
    const head = [
      out.style('dim', clockText(at)),
      padTo(subject, this.#subjectWidth),
      out.style('dim', padTo(id === null ? '' : shortId(id), ID_WIDTH)),
    ].join(GAP)
    const indent = 8 + this.#subjectWidth + ID_WIDTH + 3 * GAP.length
    const format = FORMATS[tone]
    const [first, ...rest] = this.#fold(text, indent).map((line) => (format === null ? line : out.style(format, line)))
    out.line(`${head}${GAP}${first}`)
    for (const line of rest) out.line(' '.repeat(indent) + line)
  }

  #fold(text: string, indent: number): string[] {
    const { columns } = this.#output
    const room = columns === null ? 0 : columns - indent
    return room < TEXT_WIDTH_MIN ? [text] : wrap(text, room)
  }
}
