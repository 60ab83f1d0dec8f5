// What waits together with a job that was told to wait.

import { isTypeLimit, type JobFlow } from './job-flow.js'
import type { HoldOff } from './views.js'

/** Whom a handler said must wait: the jobs of a limit, of its queue or group, or its job alone. */
export type HoldOffScope = { readonly limit: string } | 'queue' | 'group' | 'job'

/** The scope as a store takes it; null for the job alone. Without a scope it is the job's only named limit, else its group. */
export function holdOffOf(scope: HoldOffScope | null, afterMs: number, flow: JobFlow | undefined): HoldOff | null {
  const chosen = scope ?? usualScope(flow)
  if (chosen === 'job' || (chosen === 'group' && (flow?.group ?? null) === null)) return null
  return typeof chosen === 'string' ? { scope: chosen, afterMs } : { scope: 'limit', limit: chosen.limit, afterMs }
}

function usualScope(flow: JobFlow | undefined): HoldOffScope {
  const named = flow?.limits.filter((name) => !isTypeLimit(name)) ?? []
  if (named.length === 1) return { limit: named[0]! }
  return (flow?.group ?? null) === null ? 'job' : 'group'
}
