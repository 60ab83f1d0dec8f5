// Makes jobs dead that have never run here: an import's failed jobs.

import type { Burial, BuryResult } from '../../core/operator-store.js'
import { shortId } from './ids.js'
import { lua } from './lua.js'
import type { Redis } from './redis.js'
import { stateOfLetter } from './states.js'

/** ARGV, for each job: id, attempt, error, worker. Answers for each with two values: 'missing' '' | 'buried' '' | 'refused' state. */
export const BURY: string = lua`
local function buryOne(work, id, attempt, failure, worker)
  local job = jobOf(work, id)
  if not job then return 'missing', '' end
  -- Repeating it changes nothing.
  if job.state == 'D' then return 'buried', '' end
  if job.state ~= 'S' or job.fence > 0 then return 'refused', job.state end
  take(work, job)
  held.free(work, job)
  job.attempt, job.worker = tonumber(attempt), worker
  addAttempt(work, job, work.t, failure)
  job.started, job.reason = work.t, 'attempts'
  putFinished(work, job, 'D')
  return 'buried', ''
end

writes('bury', { 'allow-oom' }, function(work, args)
  local answers, ids = {}, {}
  for i = 3, #args, 4 do
    ids[#ids + 1] = args[i]
    answers[#answers + 1], answers[#answers + 2] = buryOne(work, args[i], args[i + 1], args[i + 2], args[i + 3])
  end
  unblock(work, ids)
  return answers
end)
`

export async function bury(redis: Redis, burials: readonly Burial[]): Promise<readonly BuryResult[]> {
  if (burials.length === 0) return []
  const args = burials.flatMap(({ id, attempt, error, worker }) => [
    shortId(id),
    String(attempt),
    JSON.stringify(error),
    worker,
  ])
  const { value } = await redis.write<string[]>('operate', 'bury', args)
  return burials.map(({ id }, index): BuryResult => {
    const [result, state] = [value[2 * index]!, value[2 * index + 1]!]
    if (result === 'refused') return { id, result, state: stateOfLetter(state) }
    return { id, result: result as 'buried' | 'missing' }
  })
}
