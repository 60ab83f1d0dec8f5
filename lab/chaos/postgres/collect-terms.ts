// What flow control allowed, read from the rows of its tables. ◄── collect.ts

import type { Rate } from '../../../src/core/flow/settings.js'
import type { FlowEvent } from '../../history/events.js'

/** A row of limits, flows or groups, as far as it is watched. */
export interface Terms {
  readonly name?: string
  readonly queue?: string
  readonly group_name?: string
  readonly concurrency: number | null
  readonly rate_limit: number | null
  readonly rate_per_ms: number | null
  readonly rate_burst: number | null
  readonly rate_by_cost: boolean
  readonly position?: 'closed' | 'open' | 'half_open'
  readonly probes?: number | null
  readonly forced?: 'open' | 'closed' | null
  readonly not_before?: number
  readonly ordered?: boolean
  readonly waits_for_retry?: boolean
  readonly paused?: boolean
}

type Unplaced<E> = E extends FlowEvent ? Omit<E, 'order' | 'at' | 'tx' | 'committedAt'> : never

/** What such a row allows, or what is allowed once it is gone. */
export function termsOf(source: string, row: Terms): Unplaced<FlowEvent> {
  const isGone = source.endsWith('_gone')
  const bounds = isGone ? { concurrency: null, rate: null } : { concurrency: row.concurrency, rate: rateOf(row) }
  const notBefore = isGone ? null : waitOf(row)
  if (source.startsWith('limits')) {
    return { ev: 'limit', limit: row.name!, ...bounds, breaker: isGone ? null : breakerOf(row), notBefore }
  }
  if (source.startsWith('flows')) {
    const ordered = !isGone && row.ordered === true
    return { ev: 'groups', queue: row.queue!, ...bounds, ordered, onRetry: row.waits_for_retry ? 'wait' : 'pass' }
  }
  const isOwn = bounds.concurrency !== null || bounds.rate !== null
  const isPaused = !isGone && row.paused === true
  return {
    ev: 'group',
    queue: row.queue!,
    group: row.group_name!,
    isPaused,
    notBefore,
    override: isOwn ? bounds : null,
  }
}

function rateOf({ rate_limit, rate_per_ms, rate_burst, rate_by_cost }: Terms): Rate | null {
  if (rate_limit === null) return null
  return { limit: rate_limit, perMs: rate_per_ms!, burst: rate_burst!, counts: rate_by_cost ? 'cost' : 'starts' }
}

function waitOf({ not_before }: Terms): number | null {
  return not_before === undefined || not_before === 0 ? null : not_before
}

function breakerOf({
  position,
  probes,
  forced,
}: Terms): { position: 'closed' | 'open' | 'half_open'; probes: number } | null {
  if (forced === 'closed') return null
  if (forced === 'open') return { position: 'open', probes: 0 }
  return probes == null ? null : { position: position!, probes }
}
