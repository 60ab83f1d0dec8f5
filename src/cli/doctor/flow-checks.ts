// The checks of `doctor` about flow control: what keeps jobs from starting for longer than it should. Pure.

import { isTypeLimit } from '../../core/flow/job-flow.js'
import type { GroupView, LimitView } from '../../core/flow/views.js'
import type { Overview } from '../../core/operating.js'
import { byUrgency, standingOf } from '../output/flow.js'
import { spanText } from '../output/times.js'
import type { Check } from './checks.js'

/** What flow control says about itself. */
export interface FlowFacts {
  readonly limits: readonly LimitView[]
  /** Groups that a dead job stopped, with their queues; not all where there are very many. */
  readonly stopped: readonly (GroupView & { readonly queue: string })[]
}

/** A provider that says 429 is back sooner than this; a longer wait is worth a look. */
const WAIT_WARN_MS = 300_000
const NAMED_MAX = 3

/** The checks that found something, or the one that says that nothing was found. */
export function flowChecks(facts: FlowFacts, overview: Overview | null, nowMs: number): readonly Check[] {
  const found = [
    checkBreakers(facts.limits, nowMs),
    checkWaits(facts.limits, nowMs),
    checkStopped(facts.stopped),
    checkDepths(overview),
    checkDefinitions(facts.limits),
  ].filter((check) => check !== null)
  if (found.length > 0) return found
  const text = 'no breaker is open, no group is stopped, no queue is full'
  return [{ name: 'flow control', level: 'ok', text, fix: [] }]
}

function warning(name: string, text: string, fix: readonly string[]): Check {
  return { name, level: 'warning', text, fix }
}

function listed(names: readonly string[]): string {
  return `${names.slice(0, NAMED_MAX).join(', ')}${names.length > NAMED_MAX ? `, and ${names.length - NAMED_MAX} more` : ''}`
}

/** A name as a shell takes it. */
function quoted(name: string): string {
  return /^[\w.:/@-]+$/.test(name) ? name : `'${name.replaceAll("'", `'\\''`)}'`
}

function checkBreakers(limits: readonly LimitView[], nowMs: number): Check | null {
  const shut = byUrgency(limits, nowMs).filter(
    ({ breaker }) => breaker?.position === 'open' && breaker.forced !== 'closed',
  )
  if (shut.length === 0) return null
  const texts = shut.map((limit) => `${limit.name}: ${standingOf(limit, nowMs).why}`)
  const fix = shut.slice(0, NAMED_MAX).map(({ name, breaker }) => {
    if (breaker?.forced === 'open')
      return `holdfast limits release ${quoted(name)}  # when what it protects works again`
    return `holdfast limits show ${quoted(name)}  # repair what its jobs call; it closes by itself`
  })
  return warning('breakers', `jobs wait for ${listed(texts)}`, fix)
}

function checkWaits(limits: readonly LimitView[], nowMs: number): Check | null {
  const long = limits.filter(({ until }) => until !== null && until.getTime() - nowMs > WAIT_WARN_MS)
  if (long.length === 0) return null
  const texts = long.map(({ name, until }) => `${name} for ${spanText(until!.getTime() - nowMs)}`)
  return warning('waits', `a handler was told to wait long, and nothing starts of ${listed(texts)}`, [
    ...long.slice(0, NAMED_MAX).map(({ name }) => `holdfast limits show ${quoted(name)}`),
  ])
}

function checkStopped(stopped: FlowFacts['stopped']): Check | null {
  if (stopped.length === 0) return null
  const names = stopped.map(({ queue, group }) => `${queue} ${group}`)
  const are = stopped.length === 1 ? '1 group is' : `${stopped.length} groups are`
  const fix = stopped
    .slice(0, NAMED_MAX)
    .flatMap(({ queue, group, stoppedBy }) => [
      `holdfast jobs requeue ${stoppedBy}  # or discard`,
      `holdfast groups resume ${quoted(queue)} ${quoted(group)}`,
    ])
  return warning('groups', `${are} stopped because a job of it died: ${listed(names)}`, fix)
}

function checkDepths(overview: Overview | null): Check | null {
  const full = (overview?.queues ?? []).filter(
    ({ ready, settings }) => ready >= (settings.flow?.maxDepth ?? Number.POSITIVE_INFINITY),
  )
  if (full.length === 0) return null
  const texts = full.map(
    ({ name, settings }) => `${name} has its ${settings.flow!.maxDepth!.toLocaleString('en')} ready jobs`,
  )
  return warning('depth', `enqueues are refused or wait: ${listed(texts)}`, [
    ...full
      .slice(0, NAMED_MAX)
      .map(({ name }) => `holdfast queues show ${quoted(name)}  # more workers, or a higher --max-depth`),
  ])
}

/** Not a warning: an operator may mean it. But who changes the definition and sees nothing happen finds out here. */
function checkDefinitions(limits: readonly LimitView[]): Check | null {
  const taken = limits.filter(({ name, origin }) => isTypeLimit(name) && origin === 'operator').map(({ name }) => name)
  if (taken.length === 0) return null
  const text = `an operator has set ${listed(taken)}: what the definitions ask for does not hold until \`holdfast limits remove\``
  return { name: 'definitions', level: 'ok', text, fix: [] }
}
