// The count at the end of an import.

import { OLD_KINDS } from '../../import/contract.js'
import type { ImportSummary, Reasons } from '../../import/summary.js'
import type { Cli } from '../command.js'
import { writeJson } from './json.js'
import { visible } from './terminal.js'

/** Prints the count: as a table, with the reasons below it, or as JSON. */
export function printImport(cli: Cli, summary: ImportSummary, { json }: { readonly json?: boolean }): void {
  if (json === true) {
    writeJson(cli, summary)
    return
  }
  const { stdout, stderr } = cli
  const imported = summary.dryRun ? 'would import' : 'imported'
  const head = ['', 'found', imported, 'already there', 'taken by others', 'skipped']
  const rows = OLD_KINDS.map((kind) => {
    const { found, imported: count, alreadyThere, gone, skipped } = summary.jobs[kind]
    return [`${kind} jobs`, ...[found, count, alreadyThere, gone, skipped].map(numberText)]
  })
  const { found, imported: count, alreadyThere, skipped } = summary.schedules
  rows.push(['schedules', numberText(found), numberText(count), numberText(alreadyThere), '-', numberText(skipped)])
  const widths = head.map((_, column) => Math.max(...[head, ...rows].map((row) => row[column]!.length)))
  for (const row of [head, ...rows]) {
    stdout.line(
      row.map((cell, column) => (column === 0 ? cell.padEnd(widths[0]!) : cell.padStart(widths[column]!))).join('  '),
    )
  }
  const { active, inFlows } = summary.left
  if (active > 0) stdout.line(`left there: ${numberText(active)} running, which their workers finish`)
  if (inFlows > 0) stdout.line(`left there: ${numberText(inFlows)} that wait for other jobs or that others wait for`)
  for (const reason of summary.skipped) stdout.line(`skipped: ${reasonText(reason)}`)
  for (const reason of summary.withoutCounterpart) stdout.line(`without counterpart: ${reasonText(reason)}`)
  if (summary.interrupted) stderr.line('stopped before the end: run it again to go on')
  if (summary.dryRun) stderr.line('nothing was changed')
}

function numberText(count: number): string {
  return count.toLocaleString('en')
}

function reasonText({ what, count, examples }: Reasons): string {
  return visible(`${numberText(count)} × ${what} (${examples.join(', ')}${count > examples.length ? ', …' : ''})`)
}
