// Who makes a change: for the audit log and the history of a job.

import { userInfo } from 'node:os'
import { type Command, Option } from 'commander'

export interface ActorFlags {
  readonly by?: string
}

/** Adds --by. */
export function addByOption(command: Command): Command {
  return command.addOption(
    new Option('--by <who>', 'who makes the change, for the audit log (default: cli and your user name)').env(
      'HOLDFAST_BY',
    ),
  )
}

/** The `by` of a call that changes something. */
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
    // In a container the user id may have no name.
    return 'unknown'
  }
}
