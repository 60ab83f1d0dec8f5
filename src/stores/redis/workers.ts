// The workers that are alive: `workers` has when each was seen, `beats` what it said.

import { isLiveAfter } from '../../core/operating.js'
import type { WorkerBeat, WorkerView } from '../../core/views.js'
import { lua } from './lua.js'
import type { Redis } from './redis.js'

/** beat: ARGV id, what it says as JSON. leave: ARGV id. workers: answers with three values for each: when it was seen, "<started> <JSON>". */
export const WORKERS: string = lua`
writes('beat', { 'allow-oom' }, function(work, args)
  local id = args[3]
  local known = redis.call('HGET', work.b .. 'beats', id)
  local started = known and string.match(known, '^%S+') or text(work.t)
  setScore(work, 'workers', id, work.t)
  setField(work, 'beats', id, started .. ' ' .. args[4])
  return {}
end)

writes('leave', { 'allow-oom' }, function(work, args)
  setScore(work, 'workers', args[3], false)
  setField(work, 'beats', args[3], false)
  return {}
end)

reads('workers', function(work)
  local found, answer = redis.call('ZRANGE', work.b .. 'workers', 0, 9999, 'WITHSCORES'), {}
  for i = 1, #found, 2 do
    answer[i] = found[i + 1]
    answer[i + 1] = redis.call('HGET', work.b .. 'beats', found[i]) or ''
  end
  return answer
end)
`

export async function beat(redis: Redis, worker: WorkerBeat): Promise<void> {
  await redis.write('upkeep', 'beat', [worker.id, JSON.stringify(worker)])
}

export async function leave(redis: Redis, workerId: string): Promise<void> {
  await redis.write('upkeep', 'leave', [workerId])
}

export async function workers(redis: Redis): Promise<readonly WorkerView[]> {
  return (await readWorkers(redis)).workers
}

/** Those that were seen a moment ago. */
export async function liveWorkers(redis: Redis): Promise<readonly WorkerView[]> {
  const { workers, nowMs } = await readWorkers(redis)
  return workers.filter((worker) => isLiveAfter(nowMs - worker.seenAt.getTime(), worker))
}

async function readWorkers(redis: Redis): Promise<{ readonly workers: WorkerView[]; readonly nowMs: number }> {
  const { value, nowMs } = await redis.read<string[]>('look', 'workers', [])
  const found: WorkerView[] = []
  for (let at = 0; at < value.length; at += 2) {
    const [seen, text] = value.slice(at, at + 2) as [string, string]
    const blank = text.indexOf(' ')
    const said = JSON.parse(text.slice(blank + 1)) as WorkerBeat
    found.push({ ...said, startedAt: new Date(Number(text.slice(0, blank))), seenAt: new Date(Number(seen)) })
  }
  return { workers: found.sort((one, other) => (one.id < other.id ? -1 : 1)), nowMs }
}
