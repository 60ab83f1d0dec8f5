// What happened over time: tallies of what was done, and samples of how many jobs were in each state.

import { BUCKET_MS, NO_TALLY, type QueueTally, type SeriesPoint, type SeriesRequest } from '../../core/operating.js'
import { seriesSteps } from '../../core/series.js'
import { entryOf, type KeptSample, type Memory } from './memory.js'
import { queues } from './queues.js'
import { stats } from './stats.js'

const EMPTY: KeptSample = { blocked: 0, scheduled: 0, ready: 0, running: 0, retrying: 0, dead: 0, oldestAgeS: 0 }

export function tally(memory: Memory, tallies: readonly QueueTally[], nowMs: number): void {
  const bucket = entryOf(memory.tallies, nowMs - (nowMs % BUCKET_MS), () => new Map())
  for (const each of tallies) {
    const { queue } = each
    bucket.set(queue, { queue, ...added(bucket.get(queue) ?? NO_TALLY, each) })
  }
}

function added(one: Omit<QueueTally, 'queue'>, other: Omit<QueueTally, 'queue'>): Omit<QueueTally, 'queue'> {
  const sum = { ...NO_TALLY }
  for (const part of Object.keys(NO_TALLY) as (keyof typeof NO_TALLY)[]) {
    ;(sum as Record<string, number>)[part] = one[part] + other[part]
  }
  return sum
}

export function sample(memory: Memory, nowMs: number): boolean {
  const atMs = nowMs - (nowMs % BUCKET_MS)
  if (memory.samples.has(atMs)) return false
  const taken = new Map<string, KeptSample>()
  for (const { name } of queues(memory)) {
    const { attemptsP99: _, isExact: __, ...counted } = stats(memory, name, nowMs)
    taken.set(name, counted)
  }
  memory.samples.set(atMs, taken)
  return true
}

export function series(memory: Memory, { queue, sinceMs, stepMs }: SeriesRequest, nowMs: number): SeriesPoint[] {
  const points: SeriesPoint[] = []
  for (const atMs of seriesSteps({ sinceMs, stepMs }, nowMs)) {
    const isWithin = (ms: number) => ms >= atMs && ms < atMs + stepMs
    let sum = { ...NO_TALLY }
    for (const [ms, tallies] of memory.tallies) {
      if (!isWithin(ms)) continue
      for (const each of tallies.values()) if (queue === null || each.queue === queue) sum = added(sum, each)
    }
    const lastMs = Math.max(...[...memory.samples.keys()].filter(isWithin))
    points.push({ at: new Date(atMs), depth: depthOf(memory.samples.get(lastMs), queue), ...sum })
  }
  return points
}

function depthOf(taken: ReadonlyMap<string, KeptSample> | undefined, queue: string | null): KeptSample | null {
  if (taken === undefined) return null
  if (queue !== null) return taken.get(queue) ?? EMPTY
  return [...taken.values()].reduce(
    (sum, each) => ({
      blocked: sum.blocked + each.blocked,
      scheduled: sum.scheduled + each.scheduled,
      ready: sum.ready + each.ready,
      running: sum.running + each.running,
      retrying: sum.retrying + each.retrying,
      dead: sum.dead + each.dead,
      oldestAgeS: Math.max(sum.oldestAgeS, each.oldestAgeS),
    }),
    EMPTY,
  )
}
