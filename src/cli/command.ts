// What a command is, and what every command is given.

import type { Command } from 'commander'
import { addEarlyOptions } from './input/connection.js'
import type { Output } from './output/terminal.js'

/** The two outputs of a command. */
export interface Cli {
  /** Data: what the command was asked for, and nothing else. Scripts read it. */
  readonly stdout: Output
  /** Everything else, for people. */
  readonly stderr: Output
}

/** Adds one command, with its arguments, options, help and action, to the program or to a group. */
export type AddCommand = (parent: Command, cli: Cli) => void

export const HELP_SUMMARY = 'show the help of a command'

/** A group of commands: a noun with its verbs. */
interface Group {
  readonly name: string
  readonly summary: string
  readonly description: string
  readonly examples: Examples
  readonly commands: readonly AddCommand[]
}

/** Adds a group with its commands. */
export function addGroup(parent: Command, cli: Cli, group: Group): Command {
  const command = parent.command(group.name).summary(group.summary).description(group.description)
  command.helpCommand('help [command]', HELP_SUMMARY)
  addEarlyOptions(command, { hidden: true })
  for (const add of group.commands) add(command, cli)
  addExamples(command, group.examples)
  return command
}

type Examples = readonly (readonly [line: string, purpose: string])[]

/** Adds examples below a command's help: what to type, and what for. */
export function addExamples(command: Command, examples: Examples): void {
  const lines = examples.map(([line, purpose]) => `  # ${purpose}\n  $ ${line}`)
  command.addHelpText('after', `\nExamples:\n${lines.join('\n')}`)
}
