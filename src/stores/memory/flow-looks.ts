// What operators see of flow control beyond limits and groups: who waits for a limit, which groups have stopped, who is around a job.

import {
  type Neighbour,
  type Neighbours,
  type NeighboursRequest,
  type StoppedGroup,
  TRACK_READY_MAX,
  TRACKS_SHOWN_MAX,
  type TracksRequest,
  type TrackView,
} from '../../core/flow/views.js'
import { compareHeld, groupOf, isOrdered } from './held.js'
import type { Job, Memory } from './memory.js'
import { compareText } from './ordered.js'

export function tracks(memory: Memory, { queues, limit }: TracksRequest): TrackView[] {
  const shown = [...memory.tracks].flatMap(([queue, all]) =>
    queues === null || queues.includes(queue) ? all.map((track) => ({ queue, ...track })) : [],
  )
  return shown
    .filter(({ limits }) => limits.length > 0 && (limit === null || limits.includes(limit)))
    .map(({ queue, limits, held }) => {
      const ready = [...held.values()].reduce((sum, { values }) => sum + values.length, 0)
      return { queue, limits, ready: Math.min(ready, TRACK_READY_MAX) }
    })
    .sort((one, other) => compareText(one.queue, other.queue) || compareText(one.limits.join(), other.limits.join()))
    .slice(0, TRACKS_SHOWN_MAX)
}

export function stoppedGroups(memory: Memory, limit: number): StoppedGroup[] {
  const stopped = [...memory.groups].flatMap(([queue, groups]) =>
    [...groups].flatMap(([group, { stoppedBy }]) =>
      stoppedBy === null || !isOrdered(memory, queue, group) ? [] : [{ queue, group, stoppedBy }],
    ),
  )
  return stopped
    .sort((one, other) => compareText(one.queue, other.queue) || compareText(one.group, other.group))
    .slice(0, limit)
}

export function neighbours(memory: Memory, { id, queue, group, limit }: NeighboursRequest): Neighbours {
  const held = (memory.tracks.get(queue) ?? []).flatMap((track) => track.held.get(group)?.values ?? [])
  const line = [...held].sort((one, other) => compareHeld(memory, one, other))
  const at = line.findIndex(({ facts }) => facts.id === id)
  const running = memory.running.values
    .filter((job) => job.facts.queue === queue && groupOf(job) === group && job.facts.id !== id)
    .sort((one, other) => compareText(one.facts.id, other.facts.id))
  return {
    running: running.slice(0, limit).map(show),
    before:
      at < 1
        ? []
        : line
            .slice(Math.max(0, at - limit), at)
            .reverse()
            .map(show),
    after: at < 0 ? [] : line.slice(at + 1, at + 1 + limit).map(show),
  }
}

function show({ facts: { id, type } }: Job): Neighbour {
  return { id, type }
}
