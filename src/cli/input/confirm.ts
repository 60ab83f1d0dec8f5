// Asks before a change that cannot be undone. A script is never asked: it must pass --yes.

import { createInterface } from 'node:readline/promises'
import type { Command } from 'commander'
import type { Cli } from '../command.js'
import { CliError } from '../errors.js'

export interface ConfirmFlags {
  readonly yes?: boolean
  readonly json?: boolean
}

/** Adds --yes. */
export function addYesOption(command: Command): Command {
  return command.option('-y, --yes', 'do it without asking')
}

/** True when the answer is yes. Raises where there is no terminal to ask on. */
export async function confirm(cli: Cli, question: string, { yes, json }: ConfirmFlags): Promise<boolean> {
  if (yes === true) return true
  if (json === true || process.stdin.isTTY !== true || !cli.stderr.isTerminal) {
    const why = json === true ? 'with --json it does not ask' : 'there is no terminal to ask on'
    throw new CliError(`this needs a yes, and ${why}: ${question}`, {
      hint: 'add --yes to do it, or --dry-run, where the command has it, to see what it would do',
    })
  }
  const reader = createInterface({ input: process.stdin, output: process.stderr })
  try {
    const answer = await reader.question(`${question} [y/N] `)
    if (/^y(es)?$/i.test(answer.trim())) return true
    cli.stderr.line('nothing was changed')
    return false
  } finally {
    reader.close()
  }
}
