// Lists leases that have run out. ◄── upkeep/rescue.ts

import type { Expired, ExpiredJob } from '../../core/upkeep-store.js'
import type { Epochs } from './epochs.js'
import { readHead } from './facts.js'
import { longId } from './ids.js'
import { lua } from './lua.js'
import { queueLimits } from './queues.js'
import type { Redis } from './redis.js'

/**
 * expired: ARGV limit. Answers with six values for each job: id, "<fence> <attempt> <crashes> <begun>", worker, leased until, head of its
 * facts, settings of its queue.
 */
export const EXPIRED: string = lua`
reads('expired', function(work, args)
  local found = redis.call('ZRANGEBYSCORE', work.b .. 'leases', '-inf', text(work.t), 'WITHSCORES', 'LIMIT', 0, tonumber(args[3]))
  local ids, answer = {}, {}
  for i = 1, #found, 2 do ids[#ids + 1] = found[i] end
  load(work, 's', ids)
  load(work, 'f', ids)
  for i, id in ipairs(ids) do
    local job = jobOf(work, id)
    -- One that got on under this lease is not what took its worker down: it is the first crash since.
    local crashes = hasFlag(job, 'd') and 0 or job.crashes
    local counts = text(job.fence) .. ' ' .. job.attempt .. ' ' .. crashes .. ' ' .. (hasFlag(job, 'b') and '1' or '0')
    local head = string.match(work.f[id], '^[^\n]*')
    local values = { id, counts, job.worker, found[2 * i], head, queueOf(work, job.queue).settings }
    for _, value in ipairs(values) do answer[#answer + 1] = value end
  end
  return answer
end)
`

export async function expired(redis: Redis, limit: number, epochs: Epochs): Promise<Expired> {
  const found = await expiredLeases(redis, limit)
  return { ...found, upMs: await epochs.upMs(redis, found.nowMs) }
}

/** The leases that have run out, those that ran out first first. */
export async function expiredLeases(redis: Redis, limit: number): Promise<Omit<Expired, 'upMs'>> {
  const { value, nowMs } = await redis.read<string[]>('upkeep', 'expired', [limit])
  const jobs: ExpiredJob[] = []
  for (let at = 0; at < value.length; at += 6) jobs.push(expiredJob(value.slice(at, at + 6), nowMs))
  return { jobs, nowMs }
}

function expiredJob(values: readonly string[], nowMs: number): ExpiredJob {
  const [id, counts, worker, until, head, settings] = values as readonly [
    string,
    string,
    string,
    string,
    string,
    string,
  ]
  const [fence, attempt, crashes, begun] = counts.split(' ').map(Number) as [number, number, number, number]
  const { queue, type, createdAtMs, limits, idempotencyKey, flow } = readHead(head)
  return {
    ...{ id: longId(id), fence, queue, type, worker, attempt, crashes, createdAtMs },
    expiredMs: nowMs - Number(until),
    // Workers only say that they begin a job that crashed before; of any other it must be assumed.
    started: crashes === 0 || begun === 1,
    ...{ limits, queueLimits: queueLimits(settings), idempotencyKey },
    ...(flow === undefined ? {} : { flow }),
  }
}
