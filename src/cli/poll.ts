// Looking again and again until it is time to stop; a store that is away is told once and waited for.

import { setTimeout as sleep } from 'node:timers/promises'
import { isHoldfastError } from '../core/errors.js'
import type { Cli } from './command.js'

/** Calls `look` every so often. What cannot be mended by waiting is raised. */
export async function pollUntil(
  signal: AbortSignal,
  { cli, everyMs, look }: { readonly cli: Cli; readonly everyMs: number; readonly look: () => Promise<void> },
): Promise<void> {
  let isAway = false
  while (!signal.aborted) {
    try {
      await look()
      if (isAway) cli.stderr.line('the store is back')
      isAway = false
    } catch (error) {
      if (signal.aborted) return
      if (!isHoldfastError(error) || !error.retryable) throw error
      if (!isAway) cli.stderr.line(`${cli.stderr.style('red', 'away:')} ${error.message}`)
      isAway = true
    }
    await sleep(everyMs, undefined, { signal }).catch(() => {})
  }
}
