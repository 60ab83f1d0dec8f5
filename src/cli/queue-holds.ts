// What holds a queue up now: its own bounds, groups that are stopped, and what some of its ready jobs wait for.

import type { ReasonCode } from '../core/explain.js'
import { queueLimitName } from '../core/flow/job-flow.js'
import { PAGE_MAX } from '../core/operator-store.js'
import type { QueueStats, QueueView } from '../core/views.js'
import type { Holdfast } from '../holdfast.js'
import { isHolding, standingOf } from './output/flow.js'

/** How many ready jobs are asked what they wait for: the newest. */
const ASKED = 5
const NAMED_MAX = 3

/** What holds a job up that does not depend on its place. */
const HELD: readonly ReasonCode[] = [
  'group_order',
  'group_busy',
  'limit_full',
  'rate_limited',
  'told_to_wait',
  'breaker_open',
  'type_unknown',
]

/** Each as one line; none when nothing holds it up. */
export async function whatHolds(
  holdfast: Holdfast,
  { name, paused, settings }: QueueView,
  { ready }: Pick<QueueStats, 'ready'>,
): Promise<readonly string[]> {
  const nowMs = Date.now()
  const lines: string[] = paused ? ['it is paused'] : []
  const own = (await holdfast.limits()).find((limit) => limit.name === queueLimitName(name))
  if (own !== undefined && isHolding(own, nowMs)) lines.push(`${standingOf(own, nowMs).why} (the queue's own limit)`)
  const maxDepth = settings.flow?.maxDepth ?? null
  if (maxDepth !== null && ready >= maxDepth) {
    const what = settings.flow?.onFull === 'wait' ? 'wait' : 'are refused'
    lines.push(`it has its ${maxDepth.toLocaleString('en')} ready jobs: enqueues ${what}`)
  }
  lines.push(...(await stoppedGroups(holdfast, name)))
  if (ready > 0) lines.push(...(await reasonsOf(holdfast, name)))
  return [...new Set(lines)]
}

async function stoppedGroups(holdfast: Holdfast, queue: string): Promise<readonly string[]> {
  const { groups, cursor } = await holdfast.groups(queue, { own: true, limit: PAGE_MAX })
  const tell = (names: readonly string[], how: string) => {
    if (names.length === 0) return []
    const more = names.length > NAMED_MAX || cursor !== null ? ', …' : ''
    const shown = names.slice(0, NAMED_MAX).join(', ')
    return [`${names.length === 1 ? '1 group is' : `${names.length} groups are`} ${how}: ${shown}${more}`]
  }
  const stopped = groups.filter(({ stoppedBy }) => stoppedBy !== null).map(({ group }) => group)
  const idle = groups.filter(({ paused, stoppedBy }) => paused && stoppedBy === null).map(({ group }) => group)
  return [...tell(stopped, 'stopped by a dead job'), ...tell(idle, 'paused')]
}

async function reasonsOf(holdfast: Holdfast, queue: string): Promise<readonly string[]> {
  const { jobs } = await holdfast.list({ queue, state: 'ready', limit: ASKED })
  const lines: string[] = []
  for (const { id } of jobs) {
    // A job may be gone meanwhile.
    const explanation = await holdfast.explain(id).catch(() => null)
    const held = explanation?.reasons.filter(
      ({ code, facts }) => HELD.includes(code) && facts.limit !== queueLimitName(queue),
    )
    lines.push(...(held ?? []).map(({ text }) => text))
  }
  return lines
}
