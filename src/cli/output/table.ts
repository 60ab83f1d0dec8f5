// Tables. Columns are as wide as their content. In a narrow terminal long texts are cut and spare columns left out; in a file
// or a pipe nothing is cut.

import { type Command, Option } from 'commander'
import type { Cli } from '../command.js'
import { CliError } from '../errors.js'
import { names } from '../input/arguments.js'
import type { StoreFlags } from '../input/connection.js'
import { writeJson, writeJsonLine } from './json.js'
import { cutTo, type Format, type Output, padTo, visible, widthOf } from './terminal.js'

/** How a cell is shown. */
interface Look {
  /** True in a terminal without --wide: show short ids and relative times. */
  readonly isShort: boolean
}

export interface Column<Row> {
  readonly name: string
  readonly text: (row: Row, look: Look) => string
  readonly side?: 'left' | 'right'
  readonly format?: (row: Row) => Format | null
  /** Shown only with --wide, or when --columns names it. */
  readonly isExtra?: boolean
  /** May be cut in a narrow terminal. */
  readonly isLong?: boolean
  /** Left out when cutting is not enough; the last spare column goes first. */
  readonly isSpare?: boolean
}

interface TableFlags {
  readonly columns?: readonly string[]
  readonly header?: boolean
  readonly wide?: boolean
}

/** The flags of every command that lists something. */
export interface ListFlags extends StoreFlags, TableFlags {
  readonly jsonl?: boolean
}

/** Adds the options of a table with these columns, and --jsonl. */
export function addTableOptions<Row>(command: Command, columns: readonly Column<Row>[]): Command {
  const all = columns.map(({ name }) => name).join(', ')
  return command
    .addOption(new Option('--jsonl', 'print JSON, one document a line').conflicts('json'))
    .addOption(new Option('--columns <names>', `which columns, comma-separated: ${all}`).argParser(names))
    .option('--no-header', 'leave out the line with the column names')
    .option('--wide', 'show all columns and cut nothing')
}

/** A list to print. */
export interface Listing<Row> {
  /** The name of the list in the JSON document. */
  readonly name: string
  readonly rows: readonly Row[]
  readonly columns: readonly Column<Row>[]
  /** Other fields of the JSON document. */
  readonly more?: object
  /** Printed on stderr when there is no row. */
  readonly empty: string
}

/** Prints a list as the flags ask: one JSON document, one document a line, or a table. */
export function printListing<Row extends object>(cli: Cli, flags: ListFlags, listing: Listing<Row>): void {
  const { name, rows, columns, more = {}, empty } = listing
  // Before anything is printed: an unknown column is an error even when there is no row.
  const chosen = chooseColumns(columns, flags)
  if (flags.json === true) writeJson(cli, { [name]: rows, ...more })
  else if (flags.jsonl === true) for (const row of rows) writeJsonLine(cli, row)
  else if (rows.length === 0) cli.stderr.line(empty)
  else for (const line of tableLines(cli.stdout, rows, chosen, flags)) cli.stdout.line(line)
}

function chooseColumns<Row>(all: readonly Column<Row>[], { columns, wide }: TableFlags): readonly Column<Row>[] {
  if (columns === undefined) return all.filter(({ isExtra }) => wide === true || isExtra !== true)
  return columns.map((name) => {
    const column = all.find((candidate) => candidate.name === name)
    if (column !== undefined) return column
    throw new CliError(`there is no column ${JSON.stringify(name)}`, {
      hint: `the columns are ${all.map((candidate) => candidate.name).join(', ')}`,
    })
  })
}

const GAP = '  '
const LONG_WIDTH_MIN = 8

/** The lines of a table. */
export function tableLines<Row>(
  out: Output,
  rows: readonly Row[],
  all: readonly Column<Row>[],
  { header = true, wide = false, columns: asked }: TableFlags = {},
): string[] {
  const look = { isShort: out.isTerminal && !wide }
  const cellsOf = ({ name, text }: Column<Row>) => [
    ...(header ? [name] : []),
    ...rows.map((row) => visible(text(row, look))),
  ]
  const filled = all.map((column): Filled<Row> => {
    const cells = cellsOf(column)
    return { column, cells, width: Math.max(0, ...cells.map(widthOf)) }
  })
  const shown = look.isShort ? narrow(filled, out.columns, asked === undefined) : filled
  const count = rows.length + (header ? 1 : 0)
  return Array.from({ length: count }, (_, line) => {
    const row = header ? rows[line - 1] : rows[line]
    return shown.map((each, at) => cellText(out, each, line, row, at === shown.length - 1)).join(GAP)
  })
}

/** A column with its cells and its width. */
interface Filled<Row> {
  readonly column: Column<Row>
  readonly cells: readonly string[]
  readonly width: number
}

function cellText<Row>(
  out: Output,
  { column, cells, width }: Filled<Row>,
  line: number,
  row: Row | undefined,
  isLast: boolean,
): string {
  const { side = 'left' } = column
  const cut = cutTo(cells[line]!, width)
  const padded = isLast && side === 'left' ? cut : padTo(cut, width, side)
  const format = row === undefined ? 'dim' : (column.format?.(row) ?? null)
  return format === null ? padded : out.style(format, padded)
}

/** Leaves out spare columns until the rest can fit, then cuts long columns, the widest first. */
function narrow<Row>(
  filled: readonly Filled<Row>[],
  room: number | null,
  mayLeaveOut: boolean,
): readonly Filled<Row>[] {
  if (room === null) return filled
  const least = ({ column, width }: Filled<Row>) => (column.isLong === true ? Math.min(width, LONG_WIDTH_MIN) : width)
  const kept = [...filled]
  while (mayLeaveOut && total(kept.map(least)) > room) {
    const at = kept.findLastIndex(({ column }) => column.isSpare === true)
    if (at === -1) break
    kept.splice(at, 1)
  }
  const widths = kept.map(({ width }) => width)
  let over = total(widths) - room
  const long = kept.flatMap(({ column }, at) => (column.isLong === true ? [at] : []))
  for (const at of long.sort((one, other) => widths[other]! - widths[one]!)) {
    if (over <= 0) break
    const given = Math.max(0, Math.min(over, widths[at]! - LONG_WIDTH_MIN))
    widths[at]! -= given
    over -= given
  }
  return kept.map((each, at) => ({ ...each, width: widths[at]! }))
}

function total(widths: readonly number[]): number {
  return widths.reduce((sum, width) => sum + width, GAP.length * (widths.length - 1))
}
