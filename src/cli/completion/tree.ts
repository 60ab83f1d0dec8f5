// The commands as the completions need them: names, options, choices.

import type { Command, Option } from 'commander'

/** One command, and those below it. */
export interface Branch {
  /** From the program down, without the program: ['jobs', 'list']. */
  readonly path: readonly string[]
  readonly summary: string
  readonly names: readonly string[]
  readonly options: readonly Choice[]
  /** Values of its first argument, where they are known. */
  readonly values: readonly string[]
  readonly branches: readonly Branch[]
}

interface Choice {
  readonly flags: readonly string[]
  readonly summary: string
  readonly takesValue: boolean
  readonly values: readonly string[]
}

/** The whole tree of a program. */
export function treeOf(command: Command, path: readonly string[] = []): Branch {
  return {
    path,
    summary: command.summary() || command.description(),
    names: [command.name(), ...command.aliases()],
    options: [...command.options.filter(({ hidden }) => !hidden).map(choiceOf), HELP],
    values: command.registeredArguments[0]?.argChoices ?? [],
    branches: command.commands.map((below) => treeOf(below, [...path, below.name()])),
  }
}

const HELP: Choice = { flags: ['--help'], summary: 'show its help', takesValue: false, values: [] }

function choiceOf({ short, long, description, required, optional, argChoices }: Option): Choice {
  return {
    flags: [long, short].filter((flag) => flag !== undefined && flag !== null),
    summary: description,
    takesValue: required || optional,
    values: argChoices ?? [],
  }
}

/** Every branch, from the root down. */
export function allBranches(root: Branch): readonly Branch[] {
  return [root, ...root.branches.flatMap(allBranches)]
}

/** What can follow a branch: the names of the commands below it and the values of its argument. */
export function wordsOf({ branches, values }: Branch): readonly string[] {
  return [...branches.flatMap(({ names }) => names), ...values]
}

/** Text inside single quotes of a POSIX shell. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}
