// Tables for people, on stderr.

import { say } from '../say.js'

export interface Column<Row> {
  readonly title: string
  readonly read: (row: Row) => string | number | null
  /** Digits after the point of a number, at most. Default 0. */
  readonly digits?: number
}

export interface Table<Row> {
  readonly columns: readonly Column<Row>[]
  readonly rows: readonly Row[]
}

/** Prints a table between two empty lines. */
export function printTable<Row>(table: Table<Row>): void {
  say(`\n${formatTable(table).join('\n')}\n`)
}

/** The lines of a table: text to the left, numbers to the right, a dash for nothing. */
export function formatTable<Row>({ columns, rows }: Table<Row>): readonly string[] {
  const cells = rows.map((row) => columns.map(({ read, digits }) => showCell(read(row), digits ?? 0)))
  const isText = columns.map(({ read }) => rows.length > 0 && rows.every((row) => typeof read(row) === 'string'))
  const widths = columns.map(({ title }, index) => Math.max(title.length, ...cells.map((row) => row[index]!.length)))
  const line = (texts: readonly string[]) =>
    texts
      .map((text, index) => (isText[index] ? text.padEnd(widths[index]!) : text.padStart(widths[index]!)))
      .join('  ')
      .trimEnd()
  return [line(columns.map(({ title }) => title)), ...cells.map(line)]
}

function showCell(value: string | number | null, digits: number): string {
  if (value === null) return '–'
  return typeof value === 'string' ? value : value.toLocaleString('en', { maximumFractionDigits: digits })
}
