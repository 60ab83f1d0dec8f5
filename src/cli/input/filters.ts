// Which jobs a command applies to: the filter language, and options for its most common terms.

import type { Command } from 'commander'
import { resolveFilter } from '../../client/filter-options.js'
import { isHoldfastError } from '../../core/errors.js'
import { FILTER_KEYS } from '../../core/filter-fields.js'
import { given } from '../../core/given.js'
import type { JobFilter } from '../../core/job-filter.js'
import type { JobState } from '../../core/states.js'
import { CliError } from '../errors.js'
import { visible, widthOf, wrap } from '../output/terminal.js'

export interface FilterFlags {
  readonly filter?: string
  readonly state?: JobState
  readonly queue?: string
  readonly type?: string
  readonly tag?: string
  readonly group?: string
}

const HELP_WIDTH = 78

const FILTER_HELP: readonly string[] = [
  'Terms are separated by blanks, and a job must match all of them. key:one,other matches either.',
  '-state, -queue, -type and -tag match the opposite. * matches anything in a name. "…" keeps blanks.',
]

/** Adds the filter options and their help. `states` is false where the command fixes the state. */
export function addFilterOptions(command: Command, { states = true }: { readonly states?: boolean } = {}): Command {
  command.option('--filter <text>', "which jobs, as in 'state:dead queue:mail_* error:timeout created:<1h'")
  for (const name of [...(states ? ['state'] : []), 'queue', 'type', 'tag', 'group']) {
    command.option(`--${name} <${name}>`, `the same as ${name}: in the filter`)
  }
  const lines = [...FILTER_HELP, `Keys: ${FILTER_KEYS.join(', ')}`].flatMap((line) => wrap(line, HELP_WIDTH))
  return command.addHelpText('after', `\nFilters:\n${lines.map((line) => `  ${line}`).join('\n')}`)
}

/** The filter of the options. An error shows the filter with a mark under the mistake. */
export function readJobFilter({ filter, state, queue, type, tag, group }: FilterFlags): JobFilter {
  try {
    return resolveFilter(given({ filter, state, queue, type, tag, group }))
  } catch (error) {
    if (!isHoldfastError(error) || error.code !== 'invalid_filter' || filter === undefined) throw error
    const { position } = error.details as { position: number | null }
    if (position === null) throw error
    const blanks = ' '.repeat(widthOf(visible(filter.slice(0, position - 1))))
    throw new CliError(`${error.message}\n${filter}\n${blanks}^`, { cause: error })
  }
}
