// What a command of the program is, and what it is given.

import type { Command } from 'commander'
import { addEarlyOptions } from './early-options.js'
import type { Output } from './terminal.js'
import { visibleJson } from './terminal.js'

/** What every command writes to. */
export interface Cli {
  /** What was asked for, and nothing else: a script reads it. */
  readonly stdout: Output
  /** Everything people should know beside it. */
  readonly stderr: Output
}

/** Adds one command, with its arguments, options, help and action, to the program or to a group of it. */
export type AddCommand = (parent: Command, cli: Cli) => void

/** A group of commands, and what its help says. */
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
  addEarlyOptions(command, { hidden: true })
  for (const add of group.commands) add(command, cli)
  addExamples(command, group.examples)
  return command
}

type Examples = readonly (readonly [line: string, purpose: string])[]

/** Examples below a command's help: what to type, and what it is good for. */
export function addExamples(command: Command, examples: Examples): void {
  const lines = examples.map(([line, purpose]) => `  # ${purpose}\n  $ ${line}`)
  command.addHelpText('after', `\nExamples:\n${lines.join('\n')}`)
}

/** The version of the JSON the commands write. It changes when a field goes or changes its meaning, not when one comes. */
const SCHEMA_VERSION = 1

/** The one JSON document a command answers with. */
export function writeJson({ stdout }: Cli, document: object): void {
  stdout.line(visibleJson({ schemaVersion: SCHEMA_VERSION, ...document }))
}

/** One of many JSON documents, each on a line of its own. */
export function writeJsonLine({ stdout }: Cli, document: object): void {
  stdout.line(visibleJson({ schemaVersion: SCHEMA_VERSION, ...document }, 0))
}
