// Limits and queues under flow control, in numbers.

import { FLOW_COUNT_MAX, FLOW_COUNTED_MAX, type FlowCounts, type QueueFlowCount } from '../../core/flow/counts.js'
import { groupSettings } from './held.js'
import { limits } from './limits.js'
import type { Memory } from './memory.js'
import { compareText } from './ordered.js'

export function flowCounts(memory: Memory, nowMs: number): FlowCounts {
  const shown = limits(memory, nowMs).slice(0, FLOW_COUNTED_MAX)
  const names = [...memory.queues].filter(
    ([name, { settings }]) => memory.tracks.has(name) || settings.flow !== undefined,
  )
  return {
    limits: shown.map(({ name, running, concurrency, level, tokens, until, breaker }) => ({
      ...{ name, running, capacity: level ?? concurrency, tokens, isHeldOff: until !== null },
      ...{ position: breaker?.position ?? null, forced: breaker?.forced ?? null },
    })),
    queues: names
      .map(([name]) => countsOf(memory, name))
      .sort((one, other) => compareText(one.queue, other.queue))
      .slice(0, FLOW_COUNTED_MAX),
  }
}

function countsOf(memory: Memory, queue: string): QueueFlowCount {
  const tracks = memory.tracks.get(queue) ?? []
  const held = tracks.flatMap((track) => [...track.held.values()].map(({ values }) => values.length))
  const groups = new Set(tracks.flatMap((track) => [...track.held.keys()]).filter((name) => name !== ''))
  const kept = groupSettings(memory, queue).ordered ? [...(memory.groups.get(queue)?.values() ?? [])] : []
  return {
    queue,
    held: Math.min(
      FLOW_COUNT_MAX,
      held.reduce((sum, count) => sum + count, 0),
    ),
    groups: Math.min(FLOW_COUNT_MAX, groups.size),
    stopped: kept.filter(({ stoppedBy }) => stoppedBy !== null).length,
    arrivals: 0,
    repaired: 0,
  }
}
