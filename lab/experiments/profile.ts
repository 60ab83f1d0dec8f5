// Where a process spends its time: a CPU profile of it, summed up by function.

import type { Profiler } from 'node:inspector'
import { Session } from 'node:inspector/promises'
import { basename } from 'node:path'

export interface TopFunction {
  readonly name: string
  /** File and line, without folders; empty for Node's own code. */
  readonly place: string
  /** Share of the samples that were in this very function. */
  readonly share: number
}

const INTERVAL_US = 1_000
const TOP = 15

/** Profiles this process for a while. */
export async function profileFor(ms: number): Promise<readonly TopFunction[]> {
  const session = new Session()
  session.connect()
  try {
    await session.post('Profiler.enable')
    await session.post('Profiler.setSamplingInterval', { interval: INTERVAL_US })
    await session.post('Profiler.start')
    await new Promise((resolve) => setTimeout(resolve, ms))
    const { profile } = await session.post('Profiler.stop')
    return topOf(profile)
  } finally {
    session.disconnect()
  }
}

function topOf({ nodes }: Profiler.Profile): readonly TopFunction[] {
  const total = nodes.reduce((sum, { hitCount }) => sum + (hitCount ?? 0), 0)
  const byFunction = new Map<string, TopFunction>()
  for (const { hitCount, callFrame } of nodes) {
    const { functionName, url, lineNumber } = callFrame
    const place = url === '' ? '' : `${basename(url)}:${lineNumber + 1}`
    const name = functionName === '' ? '(anonymous)' : functionName
    const known = byFunction.get(`${name} ${place}`)?.share ?? 0
    byFunction.set(`${name} ${place}`, { name, place, share: known + (hitCount ?? 0) / Math.max(1, total) })
  }
  return [...byFunction.values()].sort((one, other) => other.share - one.share).slice(0, TOP)
}
