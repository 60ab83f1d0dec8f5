// What the parts of the experiment on fairness share.

import { connect, type Holdfast } from '../../src/index.js'
import type { Verdict } from './experiment.js'

export interface FairnessConfig {
  readonly tenants: number
  readonly jobsEach: number
  /** Jobs of the tenant before them. */
  readonly flood: number
  readonly weightedStarts: number
  /** Jobs of the tenant that floods the queue while single jobs of others are timed. */
  readonly million: number
  readonly floodMs: readonly [number, number]
  readonly floodSlots: number
  readonly singlesPerSecond: number
  readonly singleSeconds: number
  readonly queueStarts: number
  readonly agingMs: number
  /** How long a job of low priority is watched without aging. */
  readonly agingSeconds: number
  readonly fleets: readonly FleetSize[]
  readonly deadlineSeconds: number
}

export interface FleetSize {
  readonly processes: number
  readonly slots: number
}

/** A row of the table. */
export interface Part {
  readonly what: string
  readonly processes: number
  readonly expected: string | null
  readonly seen: string | null
  readonly p50: number | null
  readonly p99: number | null
  readonly max: number | null
}

/** A row without times. */
export function partOf(what: string, processes: number, expected: string, seen: string): Part {
  return { what, processes, expected, seen, p50: null, p99: null, max: null }
}

/** How often each of several was served, beside its weight. */
export interface Shares {
  readonly name: string
  readonly part: Part
  readonly of: readonly { readonly name: string; readonly weight: number; readonly starts: number }[]
}

/** By how much a share may differ from its weight's. Of few starts a larger part falls into a round that was not over. */
const toleranceOf = (starts: number) => (starts < 1_000 ? 0.1 : 0.05)

/** A verdict for each of them. Shares of a worker's queues are an aim: what a queue that is empty for a moment leaves goes to the others. */
export function shareVerdicts({ name, of }: Shares, kind: Verdict['kind']): Verdict[] {
  const starts = of.reduce((sum, one) => sum + one.starts, 0)
  const weights = of.reduce((sum, one) => sum + one.weight, 0)
  return of.map((one) => {
    const expected = (starts * one.weight) / weights
    const off = (one.starts - expected) / expected
    return {
      kind,
      about: `${name}: starts of ${one.name} of ${starts.toLocaleString('en')}`,
      expected: `${expected.toFixed(0)} ± ${100 * toleranceOf(starts)} %`,
      seen: `${one.starts} (${off >= 0 ? '+' : ''}${(100 * off).toFixed(1)} %)`,
      holds: Math.abs(off) <= toleranceOf(starts),
    }
  })
}

/** Opens a client for `work` and closes it afterwards. */
export async function withHoldfast<T>(url: string, work: (holdfast: Holdfast) => Promise<T>): Promise<T> {
  const holdfast = await connect(url, { upkeep: false })
  try {
    return await work(holdfast)
  } finally {
    await holdfast.close()
  }
}
