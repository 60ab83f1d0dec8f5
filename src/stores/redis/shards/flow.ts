// What operators see of flow control over several shards. ◄── store.ts

import { FLOW_COUNTED_MAX, type FlowCounts } from '../../../core/flow/counts.js'
import { type StoppedGroup, TRACKS_SHOWN_MAX, type TracksRequest, type TrackView } from '../../../core/flow/views.js'
import { limitCounts, queueCounts } from '../flow-counts.js'
import { stoppedGroups, tracks } from '../flow-looks.js'
import type { ShardLimits } from './limits.js'
import type { Shards } from './shards.js'

export async function flowCountsFrom(shards: Shards, limits: ShardLimits): Promise<FlowCounts> {
  const [views, queues] = await Promise.all([limits.all(), shards.each(queueCounts)])
  const all = queues.every((each) => each !== null) ? queues.flat() : null
  const byName = all?.sort((one, other) => (one.queue < other.queue ? -1 : 1)).slice(0, FLOW_COUNTED_MAX)
  return { limits: limitCounts(views), queues: byName ?? null }
}

export async function stoppedGroupsFrom(shards: Shards, limit: number): Promise<readonly StoppedGroup[]> {
  const found = (await shards.each((redis) => stoppedGroups(redis, limit))).flat()
  const keyOf = ({ queue, group }: StoppedGroup) => `${queue} ${group}`
  return found.sort((one, other) => (keyOf(one) < keyOf(other) ? -1 : 1)).slice(0, limit)
}

export async function tracksFrom(shards: Shards, request: TracksRequest): Promise<readonly TrackView[]> {
  const { queues } = request
  const found = await shards.each((redis, index) => {
    const own = queues?.filter((queue) => shards.indexOf(queue) === index)
    return tracks(redis, own === undefined ? request : { ...request, queues: own })
  })
  const keyOf = ({ queue, limits }: TrackView) => `${queue} ${limits.join()}`
  const all = found.flat().sort((one, other) => (keyOf(one) < keyOf(other) ? -1 : 1))
  return all.slice(0, TRACKS_SHOWN_MAX)
}
