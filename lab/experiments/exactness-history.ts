// What the records of runs say about concurrency, and what times of starts say about a rate.

import { readFileSync } from 'node:fs'

/** A run of a handler. */
export interface RunSpan {
  readonly type: string
  readonly fromMs: number
  /** The same as `fromMs` for a run whose end is not known: a kill ended it, or its lease was lost. */
  readonly toMs: number
}

interface Open {
  readonly type: string
  readonly fromMs: number
  toMs: number | null
  isLost: boolean
}

/** The runs in files of records. */
export function readSpans(paths: readonly string[]): readonly RunSpan[] {
  const runs = new Map<string, Open>()
  for (const path of paths) for (const line of readFileSync(path, 'utf8').split('\n')) read(line, runs)
  return [...runs.values()].map(({ type, fromMs, toMs, isLost }) => ({
    ...{ type, fromMs },
    toMs: isLost || toMs === null ? fromMs : toMs,
  }))
}

function read(line: string, runs: Map<string, Open>): void {
  const [mark, id, fence, , word, at, pid] = line.split(' ')
  // The last line of a killed process may be incomplete.
  if (pid === undefined) return
  const name = `${id} ${fence}`
  if (mark === 'began') runs.set(name, { type: word!, fromMs: Number(at), toMs: null, isLost: false })
  const run = runs.get(name)
  if (run === undefined) return
  if (mark === 'ended') run.toMs = Number(at)
  if (mark === 'settled' && word === 'lost') run.isLost = true
}

/** The most runs that surely were under way in one moment. */
export function busiestMoment(spans: readonly RunSpan[]): number {
  const moments = spans
    .filter(({ fromMs, toMs }) => toMs > fromMs)
    .flatMap(({ fromMs, toMs }) => [
      { atMs: fromMs, change: 1 },
      { atMs: toMs, change: -1 },
    ])
  // In one millisecond ends come first: which of them came first is not known.
  moments.sort((one, other) => one.atMs - other.atMs || one.change - other.change)
  let running = 0
  let most = 0
  for (const { change } of moments) {
    running += change
    most = Math.max(most, running)
  }
  return most
}

/** The most starts of any window beyond what the rate gives for its length: a token bucket keeps it at its burst. */
export function fullestBucket(timesMs: readonly number[], perMs: number): number {
  let filled = 0
  let fullest = 0
  let lastMs = timesMs[0] ?? 0
  for (const atMs of timesMs) {
    filled = Math.max(0, filled - (atMs - lastMs) * perMs) + 1
    fullest = Math.max(fullest, filled)
    lastMs = atMs
  }
  return fullest
}
