// Options that every command takes, given before it: `holdfast --url X jobs list` means `holdfast jobs list --url X`.

import { type Command, Option } from 'commander'
import { storeOptions } from './connection.js'

/** Lets a program or a group take the shared options as well; `hidden` keeps them out of its help. */
export function addEarlyOptions(command: Command, { hidden }: { readonly hidden: boolean }): void {
  for (const option of storeOptions({ json: 'for programs: JSON on stdout' })) {
    // What the environment says is read by the command itself, where what was typed wins over it.
    const early = new Option(option.flags, `${option.description}; also after the command`).hideHelp(hidden)
    if (option.argChoices !== undefined) early.choices(option.argChoices)
    command.addOption(early)
  }
}

/** Hands what was given before a command on to it. What was given after it wins. */
export function takeEarlyOptions(command: Command): void {
  for (let above = command.parent; above !== null; above = above.parent) {
    for (const option of above.options) takeOption(command, above, option)
  }
}

function takeOption(command: Command, above: Command, option: Option): void {
  const name = option.attributeName()
  if (above.getOptionValueSource(name) !== 'cli') return
  if (!command.options.some((own) => own.attributeName() === name)) {
    const path = command.parent === above ? command.name() : `${command.parent?.name()} ${command.name()}`
    command.error(`error: ${path} takes no option ${option.long}`)
  }
  if (command.getOptionValueSource(name) === 'cli') return
  command.setOptionValueWithSource(name, above.getOptionValue(name), 'cli')
}
