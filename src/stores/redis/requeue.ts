// What operators do with dead jobs: requeue or discard them.

import type { CancelResult, RequeueResult } from '../../core/operator-store.js'
import { cancelResult } from './cancel.js'
import { longId, shortId } from './ids.js'
import { lua } from './lua.js'
import type { Redis } from './redis.js'
import { stateOfLetter } from './states.js'

/**
 * ARGV of both: who, then ids. requeue answers for each with three values: 'missing' '' '' | 'requeued' number '' | 'refused' state and the
 * id of the job that holds its key, or ''. discard answers as cancel does.
 */
export const REQUEUE: string = lua`
local function requeueOne(work, id, by)
  local job = jobOf(work, id)
  if not job then return { 'missing', '', '' } end
  if job.state ~= 'D' then return { 'refused', job.state, '' } end
  local holder = keyHolder(work, job.queue, job.key)
  if holder and holder.id ~= id then return { 'refused', job.state, holder.id } end
  take(work, job)
  takeKey(work, job)
  job.attempt, job.crashes = 0, 0
  local number = redis.call('LLEN', work.b .. 'y:' .. id) + 1
  addFlag(job, 'y')
  if job.flow and not groups.keepsPlace(work, job) then setFacts(work, id, held.reorder(work, job, wholeFacts(work, id))) end
  later(work, 'RPUSH', 'y:' .. id, text(work.t) .. ' ' .. by)
  putReady(work, job, NORMAL)
  audit(work, by, 'requeue', id, '', '')
  if work.shard then shards.oweKids(work, job) end
  return { 'requeued', tostring(number), '' }
end

-- The oldest first: of several with one key the oldest gets it.
local function requeueAll(work, ids, by)
  local known, unique, answers = {}, {}, {}
  for _, id in ipairs(ids) do
    if not known[id] then
      known[id] = true
      unique[#unique + 1] = id
    end
  end
  for _, id in ipairs(sorted(unique)) do known[id] = requeueOne(work, id, by) end
  for _, id in ipairs(ids) do
    for _, value in ipairs(known[id]) do answers[#answers + 1] = value end
  end
  return answers
end

local function discardAll(work, ids, by)
  local answers = {}
  for _, id in ipairs(ids) do
    local job, result, state = jobOf(work, id), 'cancelled', ''
    if not job then
      result = 'missing'
    elseif job.state == 'D' then
      take(work, job)
      job.reason = '-'
      putFinished(work, job, 'C')
      audit(work, by, 'discard', id, '', '')
    elseif job.state ~= 'C' then
      result, state = 'refused', job.state
    end
    answers[#answers + 1], answers[#answers + 2] = result, state
  end
  unblock(work, ids)
  return answers
end

writes('requeue', {}, function(work, args) return requeueAll(work, slice(args, 4), args[3]) end)
writes('discard', { 'allow-oom' }, function(work, args) return discardAll(work, slice(args, 4), args[3]) end)
`

export async function requeue(redis: Redis, ids: readonly string[], by: string): Promise<readonly RequeueResult[]> {
  if (ids.length === 0) return []
  const { value } = await redis.write<string[]>('operate', 'requeue', [by, ...ids.map(shortId)])
  return ids.map((id, index): RequeueResult => {
    const [result, detail, holder] = value.slice(3 * index, 3 * index + 3) as [string, string, string]
    if (result === 'missing') return { id, result }
    if (result === 'requeued') return { id, result, requeues: Number(detail) }
    const state = stateOfLetter(detail)
    return { id, result: 'refused', state, ...(holder === '' ? {} : { heldBy: longId(holder) }) }
  })
}

export async function discard(redis: Redis, ids: readonly string[], by: string): Promise<readonly CancelResult[]> {
  if (ids.length === 0) return []
  const { value } = await redis.write<string[]>('operate', 'discard', [by, ...ids.map(shortId)])
  return ids.map((id, index) => cancelResult(id, value[2 * index]!, value[2 * index + 1]!))
}
