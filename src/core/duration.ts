// Durations: '250ms', '30s', '5m', '2h', '7d', or a number of milliseconds.

import { invalidOption } from './errors.js'

/** A length of time as users write it. A bare number is milliseconds. */
export type Duration = number | `${number}ms` | `${number}s` | `${number}m` | `${number}h` | `${number}d`

const UNIT_MS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const

/** A hundred years. Longer is a mistake in the unit, and dates beyond it no longer fit everywhere. */
export const DURATION_MS_MAX: number = 100 * 365 * UNIT_MS.d

/** Which lengths a duration may have, and what it is called in messages. */
export interface DurationRule {
  readonly name: string
  /** Smallest allowed, in milliseconds. Default 0. */
  readonly minMs?: number
  /** Largest allowed, in milliseconds. Default a hundred years. */
  readonly maxMs?: number
}

/** Milliseconds of a duration; raises `invalid_option` for anything that is not one or lies outside the rule. */
export function durationMs(value: unknown, rule: DurationRule): number {
  const ms = readMs(value)
  const { minMs = 0, maxMs = DURATION_MS_MAX } = rule
  if (ms === null || !Number.isFinite(ms)) {
    throw invalidOption(
      `${rule.name} must be a duration such as '250ms', '30s', '5m', '2h', '7d' or a number of milliseconds`,
      value,
    )
  }
  if (ms < minMs || ms > maxMs) {
    throw invalidOption(`${rule.name} must be between ${showMs(minMs)} and ${showMs(maxMs)}`, value)
  }
  return Math.round(ms)
}

function readMs(value: unknown): number | null {
  if (typeof value === 'number') return value
  if (typeof value !== 'string') return null
  const match = /^(\d{1,15}(?:\.\d{1,6})?)(ms|s|m|h|d)$/.exec(value)
  if (match === null) return null
  return Number(match[1]) * UNIT_MS[match[2] as keyof typeof UNIT_MS]
}

/** A duration as people write it: the largest unit that keeps it short. */
export function showMs(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)}ms`
  if (ms < 120_000) return `${trim(ms / 1_000)}s`
  if (ms < 2 * UNIT_MS.h) return `${trim(ms / UNIT_MS.m)}m`
  if (ms < 2 * UNIT_MS.d) return `${trim(ms / UNIT_MS.h)}h`
  return `${trim(ms / UNIT_MS.d)}d`
}

function trim(value: number): string {
  return String(Math.round(value * 10) / 10)
}

const EXACT = ['d', 'h', 'm', 's'] as const

/** A whole number of milliseconds as an option: the largest unit that says it exactly. */
export function writeDuration(ms: number): Duration {
  const unit = EXACT.find((each) => ms > 0 && ms % UNIT_MS[each] === 0) ?? 'ms'
  return `${ms / UNIT_MS[unit]}${unit}`
}
