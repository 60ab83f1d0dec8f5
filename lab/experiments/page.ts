// Writes a run's result into the page about its experiment, between two marks, so that no figure is copied by hand.

import { readFile, writeFile } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import type { GrowthRow } from '../bench/growth/measure.js'
import type { Column } from '../bench/table.js'
import type { ExperimentResult } from './experiment.js'

const OPENING = '<!-- run -->'
const CLOSING = '<!-- end of run -->'

export interface RunFacts {
  readonly name: string
  readonly form: string
  readonly seed: number
  readonly date: string
  readonly tookSeconds: number
  readonly machine: { readonly cpu: string | null; readonly cores: number; readonly node: string }
  readonly postgres: string
}

/** Replaces the section of a page by this run. The page must have the marks. */
export async function fillPage(page: string, out: string, result: ExperimentResult, facts: RunFacts): Promise<void> {
  const text = await readFile(page, 'utf8')
  await writeFile(page, replaceSection(text, renderRun(result, facts, relative(dirname(page), out)), page))
}

/** The text with another section between its marks. */
export function replaceSection(text: string, section: string, page: string): string {
  const [from, to] = [text.indexOf(OPENING), text.indexOf(CLOSING)]
  if (from === -1 || to < from)
    throw new Error(`${page} has no place for a run: it must have ${OPENING} and ${CLOSING}`)
  return `${text.slice(0, from + OPENING.length)}\n\n${section}\n\n${text.slice(to)}`
}

/** A run as a section of Markdown. `folder` is where its files are, seen from the page. */
export function renderRun(result: ExperimentResult, facts: RunFacts, folder: string): string {
  const { name, form, seed, date, tookSeconds, machine, postgres } = facts
  const [statements, notes] = [result.notes.filter(isStatement), result.notes.filter((note) => !isStatement(note))]
  return [
    `The ${form} form, seed ${seed}, ${date.slice(0, 10)}, ${Math.round(tookSeconds)} s: ${machine.cores} cores (${machine.cpu ?? 'unknown'}) that hold server, workers and producers together, Node ${machine.node.replace('v', '')}, PostgreSQL ${postgres}. All of it: [${name}.json](${join(folder, `${name}.json`)}).`,
    table(
      result.columns.map(({ title }) => title),
      result.rows.map((row) => cellsOf(result.columns, row)),
    ),
    table(
      ['', 'expected', 'seen', ''],
      result.verdicts.map(({ kind, about, expected, seen, holds }) => {
        const word = kind === 'promise' ? (holds ? 'kept' : '**broken**') : holds ? 'met' : '**missed**'
        return [about, expected, seen, word]
      }),
    ),
    ...notes.map((note) => `- ${note}`),
    ...statements.map((note) => `\`\`\`sql\n-- ${note}\n\`\`\``),
    ...Object.keys(result.figures).map((file) => `![${name}](${join(folder, `${file}.svg`)})`),
  ].join('\n\n')
}

function isStatement(note: string): boolean {
  return note.includes('\nSELECT')
}

function cellsOf(columns: readonly Column<GrowthRow>[], row: GrowthRow): string[] {
  return columns.map(({ read, digits }) => {
    const value = read(row)
    if (value === null) return '–'
    return typeof value === 'string' ? value : value.toLocaleString('en', { maximumFractionDigits: digits ?? 0 })
  })
}

function table(titles: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
  return [line(titles), line(titles.map(() => '---')), ...rows.map(line)].join('\n')
}
