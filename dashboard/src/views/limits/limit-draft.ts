// A limit in a form: the fields, their mistakes, and the request.

import type { Breaker, Limit } from '../../api/types.js'
import { type BoundsDraft, boundsDraft, boundsOf, boundsProblems, wholeOf, wholeProblem } from '../flow/bounds.js'
import { readDuration, writeDuration } from '../queues/durations.js'

const CONCURRENCY_MAX = 100_000
const HOUR_MS = 3_600_000

/** What stands in the fields. */
export interface LimitDraft extends BoundsDraft {
  readonly name: string
  readonly isAdaptive: boolean
  readonly min: string
  readonly max: string
  readonly hasBreaker: boolean
  /** In percent. */
  readonly failures: string
  readonly of: string
  readonly within: string
  readonly cooldown: string
  /** Empty for the usual. */
  readonly cooldownMax: string
  readonly probes: string
}

const NO_BOUNDS = { concurrency: null, rate: null }
const USUAL: NonNullable<Breaker['settings']> = {
  failures: 0.5,
  of: 20,
  withinMs: 30_000,
  cooldownMs: 15_000,
  probes: 3,
}

export function draftOf(limit: Limit | null): LimitDraft {
  const { failures, of, withinMs, cooldownMs, cooldownMaxMs, probes } = limit?.breaker?.settings ?? USUAL
  const adaptive = limit?.adaptive ?? null
  return {
    ...boundsDraft(limit ?? NO_BOUNDS),
    name: limit?.name ?? '',
    isAdaptive: adaptive !== null,
    min: adaptive === null ? '' : String(adaptive.min),
    max: adaptive === null ? '' : String(adaptive.max),
    hasBreaker: (limit?.breaker?.settings ?? null) !== null,
    failures: String(Math.round(failures * 1_000) / 10),
    of: String(of),
    within: writeDuration(withinMs),
    cooldown: writeDuration(cooldownMs),
    cooldownMax: cooldownMaxMs === undefined ? '' : writeDuration(cooldownMaxMs),
    probes: String(probes),
  }
}

export type LimitProblems = Readonly<Partial<Record<keyof LimitDraft, string | null>>>

/** What is wrong with each field, or null. The server checks again. */
export function problemsOf(draft: LimitDraft): LimitProblems {
  return {
    name: nameProblem(draft.name),
    ...boundsProblems({ ...draft, concurrency: draft.isAdaptive ? '' : draft.concurrency }),
    ...(draft.isAdaptive ? adaptiveProblems(draft) : {}),
    ...(draft.hasBreaker ? breakerProblems(draft) : {}),
  }
}

function nameProblem(text: string): string | null {
  if (text.startsWith('queue:')) return 'the limit of a queue is set on the page of the queue'
  return /^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,199}$/.test(text)
    ? null
    : 'a letter or digit, then letters, digits or . _ : / @ -, at most 200'
}

function adaptiveProblems({ min, max }: LimitDraft): LimitProblems {
  const needed = (text: string) =>
    text.trim() === '' ? 'a number is needed here' : wholeProblem(text, CONCURRENCY_MAX)
  const isSwapped = needed(min) === null && needed(max) === null && Number(max) < Number(min)
  return { min: needed(min), max: isSwapped ? 'not below the smallest' : needed(max) }
}

function breakerProblems({ failures, of, within, cooldown, cooldownMax, probes }: LimitDraft): LimitProblems {
  const percent = Number(failures)
  const whole = (text: string, max: number) =>
    text.trim() === '' ? 'a number is needed here' : wholeProblem(text, max)
  const length = (text: string, minMs: number) => {
    const ms = readDuration(text)
    return ms !== null && ms >= minMs && ms <= HOUR_MS ? null : `a duration from ${writeDuration(minMs)} to 1h`
  }
  return {
    failures: failures.trim() !== '' && percent > 0 && percent <= 100 ? null : 'above 0 and up to 100',
    of: whole(of, 1_000_000),
    within: length(within, 1_000),
    cooldown: length(cooldown, 1),
    cooldownMax: cooldownMax.trim() === '' ? null : length(cooldownMax, readDuration(cooldown) ?? 1),
    probes: whole(probes, 1_000),
  }
}

/** The body of the request. The fields have no mistakes. */
export function bodyOf(draft: LimitDraft): Readonly<Record<string, unknown>> {
  const { concurrency, rate } = boundsOf({ ...draft, concurrency: draft.isAdaptive ? '' : draft.concurrency })
  const { min, max, failures, of, within, cooldown, cooldownMax, probes } = draft
  return {
    concurrency: draft.isAdaptive ? { min: Number(min), max: Number(max) } : concurrency,
    rate,
    breaker: draft.hasBreaker
      ? {
          failures: Number(failures) / 100,
          of: wholeOf(of),
          within: readDuration(within),
          cooldown: readDuration(cooldown),
          ...(cooldownMax.trim() === '' ? {} : { cooldownMax: readDuration(cooldownMax) }),
          probes: wholeOf(probes),
        }
      : null,
  }
}
