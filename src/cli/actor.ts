// Who does it, for the audit log and the history of jobs.

import { userInfo } from 'node:os'
import { type Command, Option } from 'commander'

export interface ActorFlags {
  readonly by?: string
}

/** Adds --by. */
export function addByOption(command: Command): Command {
  return command.addOption(
    new Option('--by <who>', 'who does it, for the audit log (default: cli and your user name)').env('HOLDFAST_BY'),
  )
}

/** The options of a call that says who makes it. */
export function byOption({ by }: ActorFlags): { readonly by: string } {
  return { by: by ?? `cli:${userName()}` }
}

function userName(): string {
  try {
    return (
      userInfo()
        .username.replace(/[^\w.@-]/g, '_')
        .slice(0, 100) || 'unknown'
    )
  } catch {
    // A container may run as a user that nobody has named.
    return 'unknown'
  }
}
