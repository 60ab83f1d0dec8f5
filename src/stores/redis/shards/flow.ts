// What operators see of flow control over several shards. ◄── store.ts

import { FLOW_COUNTED_MAX, type FlowCounts, type QueueFlowCount } from '../../../core/flow/counts.js'
import { type StoppedGroup, TRACKS_SHOWN_MAX, type TracksRequest, type TrackView } from '../../../core/flow/views.js'
import { limitCounts, queueCounts } from '../flow-counts.js'
import { stoppedGroups, tracks } from '../flow-looks.js'
import type { ShardLimits } from './limits.js'
import type { Shards } from './shards.js'

export async function flowCountsFrom(shards: Shards, limits: ShardLimits): Promise<FlowCounts> {
  const [views, queues] = await Promise.all([limits.all(), shards.each(queueCounts)])
  const all = queues.every((each) => each !== null) ? byQueue(queues.flat()) : null
  const byName = all?.sort((one, other) => (one.queue < other.queue ? -1 : 1)).slice(0, FLOW_COUNTED_MAX)
  return { limits: limitCounts(views), queues: byName ?? null }
}

/** A queue that is spread has its counts in several shards, and its groups in one. */
function byQueue(counts: readonly QueueFlowCount[]): QueueFlowCount[] {
  const found = new Map<string, QueueFlowCount>()
  for (const each of counts) {
    const same = found.get(each.queue)
    const { held, groups, stopped } = same ?? each
    const sum = {
      held: held + each.held,
      groups: Math.max(groups, each.groups),
      stopped: Math.max(stopped, each.stopped),
    }
    found.set(each.queue, same === undefined ? each : { ...each, ...sum })
  }
  return [...found.values()]
}

export async function stoppedGroupsFrom(shards: Shards, limit: number): Promise<readonly StoppedGroup[]> {
  const found = (await shards.each((redis) => stoppedGroups(redis, limit))).flat()
  const keyOf = ({ queue, group }: StoppedGroup) => `${queue} ${group}`
  return found.sort((one, other) => (keyOf(one) < keyOf(other) ? -1 : 1)).slice(0, limit)
}

export async function tracksFrom(shards: Shards, request: TracksRequest): Promise<readonly TrackView[]> {
  const { queues } = request
  await shards.fresh()
  const found = await shards.each((redis, index) => {
    const own = queues?.filter((queue) => shards.partsOf(queue).includes(index))
    return tracks(redis, own === undefined ? request : { ...request, queues: own })
  })
  const keyOf = ({ queue, limits }: TrackView) => `${queue} ${limits.join()}`
  const byKey = new Map<string, TrackView>()
  for (const track of found.flat()) {
    const same = byKey.get(keyOf(track))
    byKey.set(keyOf(track), same === undefined ? track : { ...track, ready: same.ready + track.ready })
  }
  const all = [...byKey.values()].sort((one, other) => (keyOf(one) < keyOf(other) ? -1 : 1))
  return all.slice(0, TRACKS_SHOWN_MAX)
}
