// Several runs one after the other, each with its own seed, server and check: what is checked at a time fits into memory, however long
// all of it takes. The document has their sum, and the first run that failed ends it.

import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Counts, Verdict } from '../history/verdict.js'
import { spreadOf } from '../history/verdict.js'
import { say } from '../say.js'
import { type ChaosResult, runChaos } from './run.js'
import type { ChaosSettings } from './settings.js'

/** Runs the rounds of the settings. */
export async function runRounds(settings: ChaosSettings, folder: string | null): Promise<ChaosResult> {
  let total: ChaosResult | null = null
  for (let round = 0; round < settings.rounds; round++) {
    const own = folder === null ? null : settings.rounds === 1 ? folder : join(folder, `round-${round + 1}`)
    const result = await runChaos({ ...settings, seed: settings.seed + round, rounds: 1 }, { folder: own })
    total = total === null ? result : sumOf(total, result)
    if (settings.rounds > 1) {
      const { claims, flow, faults } = total.verdict.counts
      say(
        `chaos: ${round + 1} of ${settings.rounds} rounds, ${claims} claims, ${flow.starts} of flow jobs, ${faults['kill worker'] ?? 0} kills`,
      )
    }
    if (!isGood(result)) break
    if (folder === null && settings.rounds > 1) await rm(result.folder, { recursive: true, force: true })
  }
  return total!
}

/** No violation, and the run counts. */
export function isGood({ verdict }: ChaosResult): boolean {
  return verdict.ok && verdict.counted.ok
}

/** The result of two runs. What is kept of one that failed is the last one's. */
function sumOf(one: ChaosResult, other: ChaosResult): ChaosResult {
  return {
    ...{ ...other, seed: one.seed, seconds: one.seconds + other.seconds, restarts: one.restarts + other.restarts },
    complaints: [...one.complaints, ...other.complaints],
    verdict: sumOfVerdicts(one.verdict, other.verdict),
  }
}

function sumOfVerdicts(one: Verdict, other: Verdict): Verdict {
  const reasons = [...one.counted.reasons, ...other.counted.reasons]
  return {
    ok: one.ok && other.ok,
    counted: { ok: reasons.length === 0, reasons },
    violations: [...one.violations, ...other.violations],
    violationCount: one.violationCount + other.violationCount,
    counts: sumOfCounts(one.counts, other.counts),
    redeliveries: added(one.redeliveries, other.redeliveries),
    rescue: worseOf(one.rescue, other.rescue),
    recovery: worseOf(one.recovery, other.recovery),
    inversions: {
      count: one.inversions.count + other.inversions.count,
      longestMs: Math.max(one.inversions.longestMs, other.inversions.longestMs),
    },
  }
}

function sumOfCounts(one: Counts, other: Counts): Counts {
  const { dead, faults, acceptedUndoneBy, flow, longestIdleWaitMs: _, ...rest } = one
  const longestHeldMs = Math.max(flow.longestHeldMs, other.flow.longestHeldMs)
  return {
    ...added(rest, other),
    dead: added(dead, other.dead),
    faults: addedByKind(faults, other.faults),
    acceptedUndoneBy: addedByKind(acceptedUndoneBy, other.acceptedUndoneBy),
    flow: { ...added(flow, other.flow), longestHeldMs },
    longestIdleWaitMs: Math.max(one.longestIdleWaitMs, other.longestIdleWaitMs),
  }
}

/** The kinds of both. */
function addedByKind(one: Record<string, number>, other: Record<string, number>): Record<string, number> {
  return added({ ...Object.fromEntries(Object.keys(other).map((kind) => [kind, 0])), ...one }, other)
}

/** The fields of the first with those of the second added. */
function added<T extends object>(one: T, other: object): T {
  const numbers = other as Record<string, number | undefined>
  return Object.fromEntries(Object.entries(one).map(([name, value]) => [name, value + (numbers[name] ?? 0)])) as T
}

/** Times of two runs: the counts added, and the longer of the medians and extremes, because the times themselves are gone. */
function worseOf(one: Verdict['rescue'], other: Verdict['rescue']): Verdict['rescue'] {
  const none = spreadOf([])
  const buckets = none.buckets.map(({ upToMs }, index) => {
    return { upToMs, count: one.buckets[index]!.count + other.buckets[index]!.count }
  })
  const [p50, p99, max] = [Math.max(one.p50, other.p50), Math.max(one.p99, other.p99), Math.max(one.max, other.max)]
  return { count: one.count + other.count, p50, p99, max, buckets }
}
