// Makes jobs ready whose time has come, and continues with blocked jobs that one call could not move all. ◄── upkeep/promote.ts

import type { Promotion } from '../../core/upkeep-store.js'
import { lua } from './lua.js'
import type { Redis } from './redis.js'

/** ARGV: limit, limit of the list todo. Answers with: how many became ready, how long until the next is due or '', how long the first was due or '', queues. */
export const PROMOTE: string = lua`
-- Also at maxmemory: jobs that no worker gets cannot be finished, and nothing would ever be freed.
writes('promote', { 'allow-oom' }, function(work, args)
  local limit = tonumber(args[3])
  local due = redis.call('ZRANGEBYSCORE', work.b .. 'due', '-inf', text(work.t), 'WITHSCORES', 'LIMIT', 0, limit)
  local ids, queues, seen = {}, {}, {}
  for i = 1, #due, 2 do ids[#ids + 1] = due[i] end
  load(work, 's', ids)
  load(work, 'f', ids)
  for _, id in ipairs(ids) do
    local job = withFacts(work, leasedJob(work, id))
    local lane = job.state == 'S' and FRONT or NORMAL
    take(work, job)
    putReady(work, job, lane)
    if not seen[job.queue] then
      seen[job.queue] = true
      queues[#queues + 1] = job.queue
    end
  end
  -- A queue that was given new settings by a process that died before it had told all groups.
  local renewed = redis.call('ZRANGE', work.b .. 'renewing', 0, 0)[1]
  if renewed then held.renew(work, renewed, string.sub(queueOf(work, renewed).renewing or ' ', 2)) end
  local todo, candidates = redis.call('LRANGE', work.b .. 'todo', 0, tonumber(args[4]) - 1), {}
  for _, id in ipairs(todo) do candidates[id] = true end
  if #todo > 0 then later(work, 'LTRIM', 'todo', #todo, -1) end
  local moved = goOn(work, candidates)
  local following = redis.call('ZRANGE', work.b .. 'due', #ids, #ids, 'WITHSCORES')
  local untilNext = following[2] and text(math.max(0, following[2] - work.t)) or ''
  return { #ids + moved, untilNext, due[2] and text(work.t - due[2]) or '', queues }
end)
`

export async function promote(redis: Redis, limit: number, todoMax: number = limit): Promise<Promotion> {
  const { value } = await redis.write<[number, string, string, string[]]>('upkeep', 'promote', [limit, todoMax])
  const [promoted, nextDue, late, queues] = value
  return {
    promoted,
    queues: queues.sort(),
    nextDueMs: nextDue === '' ? null : Number(nextDue),
    lateMs: late === '' ? null : Number(late),
  }
}
