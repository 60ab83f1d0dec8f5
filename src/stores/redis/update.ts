// Changes a job that waits.

import { changeDetails } from '../../core/audit-details.js'
import type { JobChanges, UpdateResult } from '../../core/operator-store.js'
import { shortId } from './ids.js'
import { lua } from './lua.js'
import type { Redis } from './redis.js'
import { stateOfLetter } from './states.js'

/** ARGV: who, id, priority or '', time ('' as it is, - now, or ms), payload or '', details for the audit log. Answers with two values:
 *  'missing' '' | 'refused' state | 'updated' state. */
export const UPDATE: string = lua`
-- Writes the facts with another priority and payload.
local function rewrite(work, job, priority, payload)
  local before, queue, after, old = string.match(wholeFacts(work, job.id), '^(%d+ %S+) (%S+) %S+ ([^\n]*)\n(.*)$')
  setFacts(work, job.id, before .. ' ' .. queue .. ' ' .. priority .. ' ' .. after .. '\n' .. (payload ~= '' and payload or old))
end

writes('update', {}, function(work, args)
  local by, id, priority, time, payload, details = unpack(args, 3, 8)
  local job = jobOf(work, id)
  if not job then return { 'missing', '' } end
  if isFinished(job.state) or job.state == 'R' then return { 'refused', job.state } end
  local place, score
  if job.state == 'Q' and job.flow then
    score = held.scoreOf(work, job)
  elseif job.state == 'Q' then
    place, score = placeOf(work, job)
  end
  take(work, job)
  held.free(work, job)
  priority = priority == '' and job.priority or tonumber(priority)
  if priority ~= job.priority or payload ~= '' then rewrite(work, job, priority, payload) end
  job.priority = priority
  local runAt = tonumber(time)
  if runAt and runAt > work.t then
    if job.state == 'Q' then job.state = 'S' end
    job.at = runAt
  elseif time ~= '' and job.state == 'B' then
    job.at = nil
  elseif time ~= '' and job.state ~= 'Q' then
    -- A job that waits for a time is left to the next promotion, which gives it its position.
    job.at = work.t
  end
  -- Lane and position stay.
  if job.state == 'Q' then
    local newScore = laneStart(priority, 0) + score % (2 * LANE)
    if job.flow then held.hold(work, job, newScore) else setScore(work, place, id, newScore) end
  end
  put(work, job)
  audit(work, by, 'update', id, '', details)
  return { 'updated', job.state }
end)
`

export async function update(redis: Redis, id: string, changes: JobChanges, by: string): Promise<UpdateResult> {
  const { priority = '', runAtMs, payload = '' } = changes
  const time = runAtMs === undefined ? '' : runAtMs === null ? '-' : runAtMs
  const details = JSON.stringify(changeDetails(changes))
  const { value } = await redis.write<string[]>('operate', 'update', [
    by,
    shortId(id),
    priority,
    time,
    payload,
    details,
  ])
  const [result, state] = value as [string, string]
  if (result === 'missing') return { id, result }
  return { id, result: result as 'updated' | 'refused', state: stateOfLetter(state) }
}
