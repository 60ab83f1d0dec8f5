// Why flow control keeps a job waiting, in words for people and facts for programs.

import type { FlowStanding } from './views.js'

type FlowReasonCode =
  | 'group_paused'
  | 'group_order'
  | 'group_busy'
  | 'limit_full'
  | 'rate_limited'
  | 'told_to_wait'
  | 'breaker_open'

/** One reason, with what can be done about it. */
export interface FlowFinding {
  readonly code: FlowReasonCode
  readonly text: string
  readonly facts: Readonly<Record<string, unknown>>
  readonly next: readonly string[]
}

/** What keeps a job from starting, if it were first in its group. `span` says a length of time in words. */
export function explainFlow(
  { group, limits }: FlowStanding,
  queue: string,
  { nowMs, span }: { readonly nowMs: number; readonly span: (ms: number) => string },
): FlowFinding[] {
  const waits = (until: Date | null) => (until === null ? 0 : until.getTime() - nowMs)
  return [
    ...(group === null ? [] : groupFindings(group, queue, waits, span)),
    ...limits.flatMap((limit) => limitFindings(limit, waits, span)),
  ]
}

type Group = NonNullable<FlowStanding['group']>
type Limit = FlowStanding['limits'][number]

function groupFindings(
  group: Group,
  queue: string,
  waits: (until: Date | null) => number,
  span: (ms: number) => string,
): FlowFinding[] {
  const { name, running, concurrency, first, until, waitMs } = group
  const what = `group "${name}"`
  const facts = { queue, group: name }
  const findings: FlowFinding[] = []
  if (group.paused) findings.push(paused(group, facts))
  if (first !== null) {
    const when = first.runAt === null ? '' : ` in ${span(Math.max(0, waits(first.runAt)))}`
    const state =
      first.state === 'retrying'
        ? `retries${when}`
        : first.state === 'scheduled'
          ? `runs again${when}`
          : `is ${first.state}`
    findings.push({
      code: 'group_order',
      text: `it comes after job ${first.id} of its ordered group, which ${state}`,
      facts: { ...facts, first: first.id, state: first.state },
      next: [`see what job ${first.id} waits for, or cancel it`],
    })
  } else if (concurrency !== null && running >= concurrency) {
    const isOver = running > concurrency
    findings.push({
      code: 'group_busy',
      text: isOver
        ? `${running} jobs of ${what} are running, as a batch or since before its concurrency was ${concurrency}`
        : `${running} of ${concurrency} jobs of ${what} are running`,
      facts: { ...facts, running, concurrency },
      next: [`wait for ${isOver ? '' : 'one of '}them, or raise the concurrency of ${what} with setGroup`],
    })
  }
  if (waits(until) > 0) findings.push(toldToWait(what, waits(until), span, facts))
  else if (waitMs > 0) findings.push(rateLimited(`the rate of ${what}`, waitMs, span, facts))
  return findings
}

function paused({ name, stoppedBy }: Group, facts: FlowFinding['facts']): FlowFinding {
  const why = stoppedBy === null ? 'is paused' : `stopped because job ${stoppedBy} died`
  const next = [`resume group "${name}"`]
  return {
    code: 'group_paused',
    text: `group "${name}" ${why}: it takes jobs and gives none`,
    facts: { ...facts, stoppedBy },
    next: stoppedBy === null ? next : [`requeue or discard job ${stoppedBy}, then ${next[0]}`],
  }
}

function limitFindings(
  limit: Limit,
  waits: (until: Date | null) => number,
  span: (ms: number) => string,
): FlowFinding[] {
  const { name, running, level, until, waitMs, breaker } = limit
  const what = `limit "${name}"`
  const facts = { limit: name }
  const findings: FlowFinding[] = []
  if (breaker !== null && breaker.position === 'open' && (breaker.forced === 'open' || waits(breaker.probeAt) > 0)) {
    findings.push(shut(breaker, what, waits, span))
  }
  const probes = breaker !== null && breaker.position !== 'closed' ? (breaker.settings?.probes ?? null) : null
  const most = [limit.concurrency ?? level, probes].filter((bound) => bound !== null)
  if (most.length > 0 && running >= Math.min(...most)) {
    findings.push({
      code: 'limit_full',
      text: `${what}: ${running} of ${Math.min(...most)} are running`,
      facts: { ...facts, running, concurrency: Math.min(...most) },
      next: [`wait for one of them, or raise ${what}`],
    })
  }
  if (waits(until) > 0) findings.push(toldToWait(what, waits(until), span, facts))
  else if (waitMs > 0) findings.push(rateLimited(what, waitMs, span, facts))
  return findings
}

function shut(
  breaker: NonNullable<Limit['breaker']>,
  what: string,
  waits: (until: Date | null) => number,
  span: (ms: number) => string,
): FlowFinding {
  const facts = { since: breaker.since, probeAt: breaker.probeAt, forced: breaker.forced, opens: breaker.opens }
  const held = breaker.forced === 'open'
  return {
    code: 'breaker_open',
    text: held
      ? `the breaker of ${what} is held open by an operator since ${breaker.since.toISOString()}`
      : `the breaker of ${what} is open since ${breaker.since.toISOString()}: it is probed in ${span(waits(breaker.probeAt))}`,
    facts,
    next: held ? ['release the breaker'] : ['repair what these jobs call; to try sooner, release the breaker'],
  }
}

function toldToWait(what: string, ms: number, span: (ms: number) => string, facts: FlowFinding['facts']): FlowFinding {
  return {
    code: 'told_to_wait',
    text: `a handler was told to wait, and ${what} waits for ${span(ms)}`,
    facts: { ...facts, waitMs: ms },
    next: [],
  }
}

function rateLimited(what: string, ms: number, span: (ms: number) => string, facts: FlowFinding['facts']): FlowFinding {
  return {
    code: 'rate_limited',
    text: `${what} has no token: the next in ${span(ms)}`,
    facts: { ...facts, waitMs: ms },
    next: [],
  }
}
