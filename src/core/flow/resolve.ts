// Flow control as users write it, checked and made complete.

import { checkBoolean, checkChoice, checkKeys, checkName, checkText, checkWhole } from '../check.js'
import { type Duration, durationMs } from '../duration.js'
import { HoldfastError, show } from '../errors.js'
import type { AdaptiveSettings } from './adaptive.js'
import type { BreakerSettings } from './breaker.js'
import { COST_MAX, GROUP_LENGTH_MAX, isQueueLimit, JOB_LIMITS_MAX } from './job-flow.js'
import { limitOfQueue } from './refusals.js'
import {
  CONCURRENCY_MAX,
  DEPTH_MAX,
  type GroupOverride,
  type GroupSettings,
  type LimitSettings,
  NO_GROUP_SETTINGS,
  type QueueFlow,
  RATE_MAX,
  type Rate,
  WEIGHT_MAX,
} from './settings.js'

/** A rate: `'100/s'`, `'1000/m'`, `'5/h'`, `'10/d'`, or its parts. */
export type RateOption =
  | `${number}/${'s' | 'm' | 'h' | 'd'}`
  | {
      /** How many in `per`. */
      readonly limit: number
      readonly per: Duration
      /** How many may start immediately after a rest. Default: `limit`. */
      readonly burst?: number
      /** What a start takes: one (`starts`, the default) or the job's `cost`. */
      readonly counts?: Rate['counts']
    }

/** How many jobs run concurrently and start in a time. What is absent is not bounded. */
interface BoundOptions {
  /** How many jobs may run concurrently, over all processes, from 1 to 100,000. */
  readonly concurrency?: number
  readonly rate?: RateOption
}

/** What a limit bounds. What is absent is not bounded. */
export interface NamedLimitOptions extends Omit<BoundOptions, 'concurrency'> {
  /** How many jobs may run concurrently, over all processes, from 1 to 100,000. As `{ min, max }` it finds out by itself how much the
   *  dependency takes: it grows while calls go well and falls when they are refused for load. */
  readonly concurrency?: number | AdaptiveSettings
  readonly breaker?: BreakerOptions
}

/** When a breaker opens, and how it closes again. */
export interface BreakerOptions {
  /** It opens when this part of the outcomes failed, above 0 and up to 1. Default 0.5. */
  readonly failures?: number
  /** It judges by the newest outcomes: by as many seconds of them as it takes to have at least this many. Default 20. */
  readonly of?: number
  /** How long an outcome counts, from a second to an hour. Default 30 s. */
  readonly within?: Duration
  /** How long it stays open the first time; twice as long after each probe that fails, up to `cooldownMax`. Default 15 s. */
  readonly cooldown?: Duration
  /** How long it stays open at most, from `cooldown` to an hour: as long as it may take until its recovery is noticed. Default 10 minutes, or
   *  `cooldown` where that is longer. */
  readonly cooldownMax?: Duration
  /** How many jobs try it out when that is over, and must all succeed. Default 3. */
  readonly probes?: number
}

/** What holds for each group of a queue. */
export interface GroupOptions extends BoundOptions {
  /** One job at a time, in the order of their enqueues. Priority does not count then. Default false. */
  readonly ordered?: boolean
  /** Of ordered groups: whether the others wait while a job retries. Default 'wait'. */
  readonly onRetry?: GroupSettings['onRetry']
  /** Of ordered groups: whether the death of a job pauses its group until `resumeGroup`. Default 'continue'. */
  readonly onDead?: GroupSettings['onDead']
  /** How many ready jobs a group may have. An enqueue beyond it is refused, or waits. Default: any number. */
  readonly maxDepth?: number
}

/** Flow control of a queue. */
export interface QueueFlowOptions extends BoundOptions {
  readonly groups?: GroupOptions
  /** How many ready jobs the queue may have. An enqueue beyond it is refused, or waits. Default: any number. */
  readonly maxDepth?: number
  /** What an enqueue does that finds the queue or its group full: raise `queue_full` or `group_full` (the default), or wait, up to its
   *  `signal` or 30 s. */
  readonly onFull?: 'reject' | 'wait'
  /** A ready job gains one priority each time it has waited this long, so that low priorities are not starved. Default: never. */
  readonly aging?: Duration
}

/** Settings of one group that replace those of its queue. */
export interface GroupOverrideOptions extends BoundOptions {
  /** How many turns it gets for each turn of another group, from 1 to 1,000. Default 1. */
  readonly weight?: number
}

const UNIT_MS = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const
/** A longer time is a mistake in the unit. */
const PER_MS_MAX = 366 * UNIT_MS.d

/** The rate that an option means; raises `invalid_option`. */
export function resolveRate(what: string, value: RateOption): Rate {
  if (typeof value !== 'object' || value === null) return readRate(what, value)
  checkKeys(what, value, ['limit', 'per', 'burst', 'counts'])
  const limit = checkWhole(`${what}.limit`, value.limit, 1, RATE_MAX)
  return {
    limit,
    perMs: durationMs(value.per, { name: `${what}.per`, minMs: 1, maxMs: PER_MS_MAX }),
    burst: value.burst === undefined ? limit : checkWhole(`${what}.burst`, value.burst, 1, RATE_MAX),
    counts: value.counts === undefined ? 'starts' : checkChoice(`${what}.counts`, value.counts, ['starts', 'cost']),
  }
}

function readRate(what: string, text: unknown): Rate {
  const match = typeof text === 'string' ? /^(\d{1,10})\/([smhd])$/.exec(text) : null
  if (match === null) {
    throw new HoldfastError(
      'invalid_option',
      `${what} must be such as '100/s', '1000/m', '5/h', '10/d' or { limit, per, burst }, got ${show(text)}`,
    )
  }
  const limit = checkWhole(what, Number(match[1]), 1, RATE_MAX)
  return { limit, perMs: UNIT_MS[match[2] as keyof typeof UNIT_MS], burst: limit, counts: 'starts' }
}

function resolveBounds(what: string, { concurrency, rate }: BoundOptions): Pick<LimitSettings, 'concurrency' | 'rate'> {
  return {
    concurrency: concurrency === undefined ? null : checkWhole(`${what}concurrency`, concurrency, 1, CONCURRENCY_MAX),
    rate: rate === undefined ? null : resolveRate(`${what}rate`, rate),
  }
}

/** The settings of a limit. */
export function resolveLimit(name: string, options: NamedLimitOptions): LimitSettings {
  const what = `limit "${name}"`
  checkKeys(what, options, ['concurrency', 'rate', 'breaker'])
  const { concurrency, rate, breaker } = options
  const isAdaptive = typeof concurrency === 'object' && concurrency !== null
  const fixed = isAdaptive || concurrency === undefined ? {} : { concurrency }
  return {
    ...resolveBounds(`${what}: `, { ...fixed, ...(rate === undefined ? {} : { rate }) }),
    adaptive: isAdaptive ? resolveAdaptive(`${what}: concurrency`, concurrency) : null,
    breaker: breaker === undefined ? null : resolveBreaker(`${what}: breaker`, breaker),
  }
}

function resolveAdaptive(what: string, options: AdaptiveSettings): AdaptiveSettings {
  checkKeys(what, options, ['min', 'max'])
  const min = checkWhole(`${what}.min`, options.min, 1, CONCURRENCY_MAX)
  return { min, max: checkWhole(`${what}.max`, options.max, min, CONCURRENCY_MAX) }
}

const HOUR_MS = 3_600_000

function resolveBreaker(what: string, options: BreakerOptions): BreakerSettings {
  checkKeys(what, options, ['failures', 'of', 'within', 'cooldown', 'cooldownMax', 'probes'])
  const { failures = 0.5, of = 20, within = '30s', cooldown = '15s', cooldownMax, probes = 3 } = options
  if (typeof failures !== 'number' || !(failures > 0 && failures <= 1)) {
    throw new HoldfastError(
      'invalid_option',
      `${what}.failures must be a number above 0 and up to 1, got ${show(failures)}`,
    )
  }
  const cooldownMs = durationMs(cooldown, { name: `${what}.cooldown`, minMs: 1, maxMs: HOUR_MS })
  return {
    failures,
    of: checkWhole(`${what}.of`, of, 1, 1_000_000),
    withinMs: durationMs(within, { name: `${what}.within`, minMs: 1_000, maxMs: HOUR_MS }),
    cooldownMs,
    ...(cooldownMax === undefined
      ? {}
      : {
          cooldownMaxMs: durationMs(cooldownMax, {
            name: `${what}.cooldownMax`,
            minMs: cooldownMs,
            maxMs: HOUR_MS,
          }),
        }),
    probes: checkWhole(`${what}.probes`, probes, 1, 1_000),
  }
}

export const QUEUE_FLOW_OPTIONS: readonly string[] = ['concurrency', 'rate', 'groups', 'maxDepth', 'onFull', 'aging']

/** Flow control of a queue, or undefined when its options say nothing about it. The caller has checked their names. */
export function resolveQueueFlow(options: QueueFlowOptions): QueueFlow | undefined {
  if (QUEUE_FLOW_OPTIONS.every((name) => options[name as keyof QueueFlowOptions] === undefined)) return undefined
  const { groups, maxDepth, onFull, aging } = options
  return {
    ...resolveBounds('', options),
    groups: groups === undefined ? NO_GROUP_SETTINGS : resolveGroups(groups),
    maxDepth: maxDepth === undefined ? null : checkWhole('maxDepth', maxDepth, 1, DEPTH_MAX),
    onFull: onFull === undefined ? 'reject' : checkChoice('onFull', onFull, ['reject', 'wait']),
    agingMs: aging === undefined ? null : durationMs(aging, { name: 'aging', minMs: 1 }),
  }
}

function resolveGroups(options: GroupOptions): GroupSettings {
  checkKeys('groups', options, ['concurrency', 'rate', 'ordered', 'onRetry', 'onDead', 'maxDepth'])
  const { ordered = false, onRetry, onDead, maxDepth } = options
  const bounds = resolveBounds('groups.', options)
  if (!checkBoolean('groups.ordered', ordered)) {
    for (const [name, value] of Object.entries({ onRetry, onDead })) {
      if (value === undefined) continue
      throw new HoldfastError(
        'invalid_option',
        `groups.${name} is for ordered groups: add ordered: true or leave it out`,
      )
    }
  } else if (bounds.concurrency !== null && bounds.concurrency !== 1) {
    throw new HoldfastError(
      'invalid_option',
      `groups.concurrency must be 1 or absent where groups are ordered, got ${bounds.concurrency}: jobs that run concurrently have no order`,
    )
  }
  return {
    ...bounds,
    ordered,
    onRetry: onRetry === undefined ? 'wait' : checkChoice('groups.onRetry', onRetry, ['wait', 'pass']),
    onDead: onDead === undefined ? 'continue' : checkChoice('groups.onDead', onDead, ['continue', 'stop']),
    maxDepth: maxDepth === undefined ? null : checkWhole('groups.maxDepth', maxDepth, 1, DEPTH_MAX),
  }
}

/** What one group has of its own. */
export function resolveOverride(options: GroupOverrideOptions): GroupOverride {
  checkKeys('setGroup', options, ['concurrency', 'rate', 'weight'])
  const weight = options.weight === undefined ? 1 : checkWhole('weight', options.weight, 1, WEIGHT_MAX)
  return { ...resolveBounds('', options), weight }
}

/** The name of a group. */
export function checkGroup(value: unknown): string {
  return checkText('group', value, GROUP_LENGTH_MAX)
}

/** The name of a limit that is set, or named by a job. */
export function checkLimitName(what: string, value: unknown): string {
  const name = checkName(what, value)
  if (isQueueLimit(name)) throw limitOfQueue(name)
  return name
}

/** The limits a job names, in order and without repeats. */
export function checkLimitNames(value: unknown): readonly string[] {
  if (!Array.isArray(value)) {
    throw new HoldfastError('invalid_option', `limits must be an array of names, got ${show(value)}`)
  }
  const names = [...new Set(value.map((name, index) => checkLimitName(`limits[${index}]`, name)))].sort()
  if (names.length <= JOB_LIMITS_MAX) return names
  throw new HoldfastError('invalid_option', `limits takes at most ${JOB_LIMITS_MAX} names, got ${names.length}`)
}

/** What a start takes from rates that count cost. */
export function checkCost(value: unknown): number {
  return checkWhole('cost', value, 0, COST_MAX)
}
