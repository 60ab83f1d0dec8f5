// One run of the generator: its options checked, its figures summed up.

import { checkWhole } from '../../src/core/check.js'
import { HoldfastError, show } from '../../src/core/errors.js'
import { spreadOf } from '../history/verdict.js'
import { generatedJobs } from './handlers.js'
import { jobAt, KINDS, type Kind, MIX_DEFAULT, type Mix } from './mix.js'
import { produce, type Target } from './produce.js'
import { Recorder } from './recorder.js'

export interface GenerateOptions {
  readonly seed: number
  readonly jobs: number
  /** Calls each second, or null for as fast as the callers can. */
  readonly rate: number | null
  readonly callers: number
  readonly queue: string
  /** Such as 'fast=0.9,slow=0.1'; null for the default mix. */
  readonly shares: string | null
  /** How long jobs of the kind long run, or null for the usual. */
  readonly longMs: number | null
  /** File the calls and their answers are appended to, or null. */
  readonly record: string | null
}

export interface GenerateSummary {
  readonly seed: number
  readonly asked: number
  readonly accepted: number
  readonly refused: number
  readonly unknown: number
  readonly seconds: number
  readonly perSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly maxMs: number
}

/** Enqueues the load and sums up how it went. */
export async function generate(target: Target, options: GenerateOptions): Promise<GenerateSummary> {
  const jobs = checkWhole('jobs', options.jobs, 1, 100_000_000)
  const callers = checkWhole('callers', options.callers, 1, 20_000)
  const perSecond = options.rate === null ? null : checkWhole('rate', options.rate, 1, 1_000_000)
  const seed = checkWhole('seed', options.seed, 0, 2 ** 32 - 1)
  const mix = chooseMix(options)
  const definitions = generatedJobs({ queue: options.queue })
  const recorder = options.record === null ? null : new Recorder(options.record, { process: 'gen', processRun: 1 })
  const callAt = (seq: number) => {
    if (seq >= jobs) return null
    const payload = jobAt(seed, seq, mix)
    return { job: definitions[payload.kind], payload, options: {} }
  }
  try {
    const { latenciesMs, tookMs, ...counts } = await produce(target, { callAt, perSecond, callers, recorder })
    const { p50, p99, max } = spreadOf(latenciesMs)
    const rate = (counts.accepted * 1_000) / tookMs
    return { seed, ...counts, seconds: tookMs / 1_000, perSecond: rate, p50Ms: p50, p99Ms: p99, maxMs: max }
  } finally {
    recorder?.close()
  }
}

function chooseMix({ shares, longMs }: GenerateOptions): Mix {
  const durationsMs =
    longMs === null ? MIX_DEFAULT.durationsMs : { ...MIX_DEFAULT.durationsMs, long: [longMs, longMs] as const }
  return { ...MIX_DEFAULT, durationsMs, shares: shares === null ? MIX_DEFAULT.shares : readShares(shares) }
}

/** Reads 'fast=0.9,slow=0.1'. */
export function readShares(text: string): Record<Kind, number> {
  const shares: Record<Kind, number> = { fast: 0, slow: 0, flapping: 0, poison: 0, long: 0 }
  for (const part of text.split(',')) {
    const [name = '', value = ''] = part.split('=')
    const share = Number(value)
    if (!KINDS.includes(name as Kind) || value === '' || !(share >= 0)) {
      throw new HoldfastError(
        'invalid_option',
        `shares must be such as fast=0.9,slow=0.1 with ${KINDS.join(', ')}, got ${show(part)}`,
      )
    }
    shares[name as Kind] = share
  }
  if (Object.values(shares).every((share) => share === 0)) {
    throw new HoldfastError(
      'invalid_option',
      `shares must name at least one kind with a share above 0, got ${show(text)}`,
    )
  }
  return shares
}
