// Deletes jobs with everything that is known of them. One that waits is cancelled first, so that the jobs that come after it see how it ended.

import type { DeleteResult } from '../../core/operator-store.js'
import { shortId } from './ids.js'
import { lua } from './lua.js'
import type { Redis } from './redis.js'
import { stateOfLetter } from './states.js'

/**
 * delete: ARGV who, then ids. Answers for each with two values: 'missing' '' | 'deleted' '' | 'refused' state | 'again' '', for one that is
 * cancelled and has more jobs that come after it than one call moves on.
 */
export const DELETE: string = lua`
-- In a table: Lua takes 200 local names in one library.
local deletes = {}

-- Removes a finished job from everywhere.
function deletes.drop(work, chunk, id, job, hasPayloads)
  if hasPayloads then work.payloads[id] = false end
  work.facts[id], work.standings[id], work.chunk[id] = false, false, chunk
  if hasFlag(job, 'x') then
    setField(work, 'x:' .. chunk, id .. 'r', false)
    setField(work, 'x:' .. chunk, id .. 'p', false)
  end
  for flag, key in pairs({ a = 'a:', o = 'o:', y = 'y:', k = 'kin:' }) do
    if hasFlag(job, flag) then later(work, 'DEL', key .. id) end
  end
  if job.flags ~= '' then kept.drop(work, job, id) end
  -- In a cluster those that come after it may not have heard yet. The set goes with the last of them.
  if not work.shard then later(work, 'DEL', 'kids:' .. id) end
  if job.state == 'C' then setScore(work, 'in:cancelled', id, false) end
end

-- Ends a job that waits or is dead.
function deletes.finish(work, id)
  local job = jobOf(work, id)
  if not job then return 'missing', '' end
  if job.state == 'R' then return 'refused', 'R' end
  if job.state == 'D' then
    take(work, job)
    job.reason = '-'
    putFinished(work, job, 'C')
  elseif not isFinished(job.state) then
    take(work, job)
    held.free(work, job)
    putFinished(work, job, 'C')
  end
  return 'deleted', ''
end

function deletes.all(work, ids, by)
  local known, ended, answers = {}, {}, {}
  for _, id in ipairs(ids) do
    -- A job that is in the call twice is answered twice and written down once.
    if not known[id] then
      known[id] = { deletes.finish(work, id) }
      if known[id][1] == 'deleted' then ended[#ended + 1] = id end
    end
  end
  -- While they are still there.
  local isFull = unblock(work, ended) >= CASCADE_MAX
  for _, id in ipairs(ended) do
    if isFull then
      known[id] = { 'again', '' }
    else
      local job = jobOf(work, id)
      releaseKey(work, job)
      deletes.drop(work, chunkOf(work, id), id, job, true)
      audit(work, by, 'delete', id, '', '')
    end
  end
  for _, id in ipairs(ids) do
    answers[#answers + 1], answers[#answers + 2] = known[id][1], known[id][2]
  end
  return answers
end

writes('delete', { 'allow-oom' }, function(work, args) return deletes.all(work, slice(args, 4), args[3]) end)
`

export type AroundDelete = <T>(ids: readonly string[], by: string, act: () => Promise<T>) => Promise<T>

/** Inside what batches of bulk actions delete jobs: an outbox deletes its rows with them. */
export class Deleting {
  around: AroundDelete = (_, __, act) => act()
}

/** How often a call is repeated for jobs with very many that come after them: 5,000 are moved on each time. */
const TURNS_MAX = 1_000

export async function deleteJobs(redis: Redis, ids: readonly string[], by: string): Promise<readonly DeleteResult[]> {
  const answers = new Map<string, DeleteResult>()
  let open = [...new Set(ids)]
  for (let turn = 0; turn < TURNS_MAX && open.length > 0; turn++) {
    const { value } = await redis.write<string[]>('operate', 'delete', [by, ...open.map(shortId)])
    open = open.filter((id, at) => {
      const result = value[2 * at] as DeleteResult['result'] | 'again'
      if (result === 'again') return true
      answers.set(id, result === 'refused' ? { id, result, state: stateOfLetter(value[2 * at + 1]!) } : { id, result })
      return false
    })
  }
  return ids.map((id) => answers.get(id) ?? { id, result: 'refused', state: 'cancelled' })
}
