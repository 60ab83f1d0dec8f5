// How jobs ended, for calls that wait for them.

import type { Ending } from '../../core/views.js'
import { readAttempt, readStanding } from './get.js'
import { longId, shortId } from './ids.js'
import { lua } from './lua.js'
import type { Redis } from './redis.js'

/** ARGV: ids. Answers for each that has finished with four values: id, standing, result or '', last failed attempt or ''. */
export const ENDINGS: string = lua`
reads('endings', function(work, args)
  local ids, answer = slice(args, 3), {}
  load(work, 's', ids)
  for _, id in ipairs(ids) do
    local job = leasedJob(work, id)
    if job and isFinished(job.state) then
      local attempt = hasFlag(job, 'a') and redis.call('LINDEX', work.b .. 'a:' .. id, -1)
      for _, value in ipairs({ id, work.s[id], extraOf(work, job, 'r'), attempt or '' }) do answer[#answer + 1] = value end
    end
  end
  return answer
end)
`

export async function endings(redis: Redis, ids: readonly string[]): Promise<readonly Ending[]> {
  if (ids.length === 0) return []
  const { value } = await redis.read<string[]>('look', 'endings', ids.map(shortId))
  const found: Ending[] = []
  for (let at = 0; at < value.length; at += 4) {
    const [id, standing, result, attempt] = value.slice(at, at + 4) as [string, string, string, string]
    const { state, reason } = readStanding(standing, 0)
    const error = state === 'dead' && attempt !== '' ? readAttempt(attempt).error : null
    found.push({
      id: longId(id),
      state: state as Ending['state'],
      result: result === '' ? null : result,
      reason,
      error,
    })
  }
  return found
}
