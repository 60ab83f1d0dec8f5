// Cancels jobs: immediately while they wait, by asking their worker while they run.

import type { CancelResult } from '../../core/operator-store.js'
import { shortId } from './ids.js'
import { lua } from './lua.js'
import type { Redis } from './redis.js'
import { stateOfLetter } from './states.js'

/** ARGV: who, then ids. Answers for each with two values: 'missing' '' | 'cancelled' '' | 'asked' '' | 'refused' state. */
export const CANCEL: string = lua`
local function cancelOne(work, id, by)
  local job = jobOf(work, id)
  if not job then return 'missing', '' end
  if job.state == 'C' then return 'cancelled', '' end
  if isFinished(job.state) then return 'refused', job.state end
  audit(work, by, 'cancel', id, '', '')
  if job.state == 'R' then
    addFlag(job, 'c')
    save(work, job)
    work.asked[#work.asked + 1] = id
    return 'asked', ''
  end
  take(work, job)
  held.free(work, job)
  putFinished(work, job, 'C')
  return 'cancelled', ''
end

local function cancelAll(work, ids, by)
  local known, answers = {}, {}
  for _, id in ipairs(ids) do
    -- A job that is in the call twice is answered twice and written down once.
    known[id] = known[id] or { cancelOne(work, id, by) }
    answers[#answers + 1], answers[#answers + 2] = known[id][1], known[id][2]
  end
  unblock(work, ids)
  return answers
end

local function slice(args, from)
  local rest = {}
  for i = from, #args do rest[#rest + 1] = args[i] end
  return rest
end

writes('cancel', { 'allow-oom' }, function(work, args) return cancelAll(work, slice(args, 4), args[3]) end)
`

export async function cancel(redis: Redis, ids: readonly string[], by: string): Promise<readonly CancelResult[]> {
  if (ids.length === 0) return []
  const { value } = await redis.write<string[]>('operate', 'cancel', [by, ...ids.map(shortId)])
  return ids.map((id, index) => cancelResult(id, value[2 * index]!, value[2 * index + 1]!))
}

export function cancelResult(id: string, result: string, state: string): CancelResult {
  if (result === 'refused') return { id, result, state: stateOfLetter(state) }
  return { id, result: result as 'missing' | 'cancelled' | 'asked' }
}
