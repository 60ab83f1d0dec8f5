// Flow control for people: settings in a few words, and what holds jobs up, the worst first.

import { writeDuration } from '../../core/duration.js'
import type { BreakerSettings } from '../../core/flow/breaker.js'
import type { GroupSettings, QueueFlow, Rate } from '../../core/flow/settings.js'
import type { BreakerView, GroupView, LimitView } from '../../core/flow/views.js'
import { writeBreaker } from '../../core/flow/written.js'
import { shortId } from '../input/ids.js'
import type { Fact } from './job.js'
import type { Column } from './table.js'
import type { Format } from './terminal.js'
import { spanText, whenText } from './times.js'

/** 100/s; 100/s, burst 20; 1,000 of cost/m. */
export function rateSetting({ limit, perMs, burst, counts }: Rate): string {
  const per = String(writeDuration(perMs)).replace(/^1(?=\D)/, '')
  const number = `${limit.toLocaleString('en')}${counts === 'cost' ? ' of cost' : ''}/${per}`
  return burst === limit ? number : `${number}, burst ${burst.toLocaleString('en')}`
}

/** The settings of a breaker on one line. */
export function breakerSetting(breaker: BreakerSettings): string {
  const { failures, of, within, cooldown, cooldownMax, probes } = writeBreaker(breaker)
  const most = cooldownMax === undefined ? '' : ` up to ${cooldownMax}`
  return `opens at ${Math.round(failures! * 1_000) / 10} % of at least ${of} outcomes within ${within}, cool-down ${cooldown}${most}, ${probes} probes`
}

/** How many jobs may count in a limit now; null for any number. */
function mostOf({ concurrency, level, breaker }: LimitView): number | null {
  const probes =
    breaker !== null && breaker.forced === null && breaker.position !== 'closed' ? breaker.settings?.probes : null
  const bounds = [concurrency ?? level, probes].filter((bound) => bound != null)
  return bounds.length === 0 ? null : Math.min(...(bounds as number[]))
}

/** What a limit does to its jobs now. */
interface Standing {
  /** 0 is the worst. */
  readonly rank: number
  readonly state: string
  /** Empty when nothing is to be said. */
  readonly why: string
  readonly format: Format | null
}

/** From this rank on jobs may start. */
const STARTS_RANK = 6

/** The states of a limit, the worst first; the first that fits holds. */
export function standingOf(limit: LimitView, nowMs: number): Standing {
  const { breaker, until, running, tokens, rate } = limit
  const position = breaker === null ? null : breakerStanding(breaker, nowMs)
  if (position !== null) return position
  if (until !== null && until.getTime() > nowMs) {
    const why = `a handler was told to wait: nothing starts for ${spanText(until.getTime() - nowMs)}`
    return { rank: 3, state: 'told to wait', why, format: 'yellow' }
  }
  const most = mostOf(limit)
  if (most !== null && running >= most) {
    const over = running > most ? '; it was lowered, and these run to their end' : ''
    return { rank: 4, state: 'full', why: `${running} of ${most} run${over}`, format: 'yellow' }
  }
  if (tokens === 0) {
    return { rank: 5, state: 'no tokens', why: `its rate of ${rateSetting(rate!)} is used up`, format: 'yellow' }
  }
  if (breaker?.forced === 'closed') {
    const why = `an operator has held the breaker closed for ${age(breaker.since, nowMs)}: failures do not open it`
    return { rank: STARTS_RANK, state: 'held closed', why, format: 'cyan' }
  }
  return { rank: STARTS_RANK + 1, state: 'ok', why: '', format: 'green' }
}

function breakerStanding(breaker: BreakerView, nowMs: number): Standing | null {
  const { position, forced, since, probeAt, opens, ok, failed } = breaker
  if (forced === 'open') {
    const why = `an operator has held the breaker open for ${age(since, nowMs)}`
    return { rank: 0, state: 'HELD OPEN', why, format: 'red' }
  }
  if (forced !== null || position === 'closed') return null
  const outcomes = ok + failed === 0 ? '' : `${failed} of ${ok + failed} failed; `
  const again = opens > 1 ? `, opened ${opens} times in a row` : ''
  if (position === 'half_open') {
    const why = `${outcomes}probes have tried it out for ${age(since, nowMs)}${again}`
    return { rank: 2, state: 'HALF OPEN', why, format: 'yellow' }
  }
  const waitMs = probeAt === null ? 0 : probeAt.getTime() - nowMs
  const probe = waitMs > 0 ? `probed in ${spanText(waitMs)}` : 'the next job probes it'
  return { rank: 1, state: 'OPEN', why: `${outcomes}open for ${age(since, nowMs)}${again}; ${probe}`, format: 'red' }
}

function age(since: Date, nowMs: number): string {
  return spanText(Math.max(1, nowMs - since.getTime()))
}

/** True when the limit keeps its jobs from starting now. */
export function isHolding(limit: LimitView, nowMs: number): boolean {
  return standingOf(limit, nowMs).rank < STARTS_RANK
}

/** Limits, the worst first, then by name. */
export function byUrgency(limits: readonly LimitView[], nowMs: number): readonly LimitView[] {
  const rank = (limit: LimitView) => standingOf(limit, nowMs).rank
  return [...limits].sort((one, other) => rank(one) - rank(other) || (one.name < other.name ? -1 : 1))
}

const BAR_WIDTH = 10

/** How many run of how many may; in a terminal with a bar. */
function runningText(limit: LimitView, { isShort }: { readonly isShort: boolean }): string {
  const most = mostOf(limit)
  const { running, adaptive } = limit
  if (most === null) return String(running)
  const text = `${running}/${most}${adaptive === null ? '' : ` (${adaptive.min}-${adaptive.max})`}`
  if (!isShort) return text
  const full = Math.min(BAR_WIDTH, Math.ceil((running / most) * BAR_WIDTH))
  return `${'█'.repeat(full)}${'░'.repeat(BAR_WIDTH - full)} ${text}`
}

/** The columns of limits at a moment. */
export function limitColumns(nowMs: number): readonly Column<LimitView>[] {
  const standing = (limit: LimitView) => standingOf(limit, nowMs)
  return [
    { name: 'limit', text: ({ name }) => name, isLong: true },
    { name: 'state', text: (limit) => standing(limit).state, format: (limit) => standing(limit).format },
    { name: 'running', text: runningText },
    { name: 'rate', text: ({ rate }) => (rate === null ? '-' : rateSetting(rate)) },
    { name: 'tokens', text: ({ tokens }) => tokens?.toLocaleString('en') ?? '-', side: 'right' },
    { name: 'why', text: (limit) => standing(limit).why || '-', isLong: true },
    { name: 'breaker', text: ({ breaker }) => breakerText(breaker), isExtra: true },
    { name: 'probe', text: ({ breaker }, look) => whenText(breaker?.probeAt ?? null, look), isExtra: true },
    { name: 'until', text: ({ until }, look) => whenText(until, look), isExtra: true },
    { name: 'origin', text: ({ origin }) => origin, isExtra: true },
  ]
}

function breakerText(breaker: BreakerView | null): string {
  if (breaker === null) return '-'
  const position = breaker.position.replace('_', ' ')
  return breaker.forced === null ? position : `${position} (forced)`
}

/** Flow control of a queue as facts. */
export function queueFlowFacts(flow: QueueFlow | undefined): readonly Fact[] {
  if (flow === undefined) return []
  const { concurrency, rate, groups, maxDepth, onFull, agingMs } = flow
  return [
    ['concurrency', concurrency === null ? null : concurrency.toLocaleString('en')],
    ['rate', rate === null ? null : rateSetting(rate)],
    ['max depth', maxDepth === null ? null : `${maxDepth.toLocaleString('en')}, then ${onFull}`],
    ['on full', maxDepth === null && onFull !== 'reject' ? onFull : null],
    ['aging', agingMs === null ? null : `one priority each ${spanText(agingMs)}`],
    ['each group', groupSettingText(groups)],
  ]
}

function groupSettingText({ concurrency, rate, ordered, onRetry, onDead, maxDepth }: GroupSettings): string | null {
  const parts = [
    concurrency === null || ordered ? null : `concurrency ${concurrency}`,
    rate === null ? null : `rate ${rateSetting(rate)}`,
    ordered ? `ordered; others ${onRetry} while one retries, ${onDead} when one dies` : null,
    maxDepth === null ? null : `max depth ${maxDepth.toLocaleString('en')}`,
  ].filter((part) => part !== null)
  return parts.length === 0 ? null : parts.join(', ')
}

/** The settings of one group on one line. */
export function overrideText({ override }: Pick<GroupView, 'override'>): string {
  if (override === null) return '-'
  const { concurrency, rate, weight } = override
  const parts = [
    concurrency === null ? null : `concurrency ${concurrency}`,
    rate === null ? null : `rate ${rateSetting(rate)}`,
    weight === 1 ? null : `weight ${weight}`,
  ].filter((part) => part !== null)
  return parts.length === 0 ? 'none that differ' : parts.join(', ')
}

/** What a group is up to: stopped, paused, told to wait, or nothing special. */
export function groupState({ paused, stoppedBy, until, running, ready }: GroupView, nowMs: number): Standing {
  if (stoppedBy !== null) {
    return { rank: 0, state: 'STOPPED', why: `job ${stoppedBy} died`, format: 'red' }
  }
  if (paused) return { rank: 1, state: 'paused', why: 'an operator paused it', format: 'yellow' }
  if (until !== null && until.getTime() > nowMs) {
    return { rank: 2, state: 'told to wait', why: `for ${spanText(until.getTime() - nowMs)}`, format: 'yellow' }
  }
  return { rank: 3, state: running > 0 ? 'runs' : ready > 0 ? 'waits' : 'empty', why: '', format: null }
}

/** The columns of groups at a moment. */
export function groupColumns(nowMs: number): readonly Column<GroupView>[] {
  return [
    { name: 'group', text: ({ group }) => group, isLong: true },
    {
      name: 'state',
      text: (group) => groupState(group, nowMs).state,
      format: (group) => groupState(group, nowMs).format,
    },
    { name: 'ready', text: ({ ready }) => ready.toLocaleString('en'), side: 'right' },
    { name: 'running', text: ({ running }) => running.toLocaleString('en'), side: 'right' },
    { name: 'settings', text: overrideText, isLong: true },
    {
      name: 'stopped-by',
      text: ({ stoppedBy }, { isShort }) => (stoppedBy === null ? '-' : isShort ? shortId(stoppedBy) : stoppedBy),
    },
    { name: 'until', text: ({ until }, look) => whenText(until, look) },
  ]
}
