// What a job's standing depends on.

import type { Standing } from '../../core/operating.js'
import { readFlowStanding } from './flow-standing.js'
import { JOB_VALUES, readSeen, summaryOf } from './get.js'
import { longId, shortId } from './ids.js'
import type { KeptLimit } from './limit-row.js'
import { lua } from './lua.js'
import type { Redis } from './redis.js'
import { waitView } from './signal.js'
import { stateOfLetter } from './states.js'
import { liveWorkers } from './workers.js'

/** ARGV: id. Answers with the seven values of the job, then: '1' when its queue is paused, jobs ahead, id that holds its key or '', what
 *  flow-standing.ts says, the signal it waits for or '', '1' when it waits for its children, and four values for each parent: id, state, type, queue. Nothing when there is no such job. */
export const STANDING: string = lua`
local function aheadOf(work, job)
  if job.state ~= 'Q' then return 0 end
  if job.flow then
    local place = placeKey(job.queue, job.flow.track, job.flow.group)
    return redis.call('ZCOUNT', work.b .. place, '-inf', '(' .. text(held.scoreOf(work, job)))
  end
  local _, score = placeOf(work, job)
  local below = '(' .. text(score)
  local ahead = redis.call('ZCOUNT', work.b .. 'line:' .. job.queue, '-inf', below)
  for _, kind in ipairs(redis.call('SMEMBERS', work.b .. 'parked:' .. job.queue)) do
    ahead = ahead + redis.call('ZCOUNT', work.b .. parkOf(job.queue, kind), '-inf', below)
  end
  return ahead
end

reads('standing', function(work, args)
  local job = jobOf(work, args[3])
  if not job then return {} end
  local values = sevenValues(work, job, false)
  local holder = keyHolder(work, job.queue, job.key)
  values[8] = queueOf(work, job.queue).isPaused and '1' or ''
  values[9] = text(aheadOf(work, job))
  values[10] = holder and holder.id ~= job.id and holder.id or ''
  values[11] = flowOfJob(work, job)
  values[12], values[13] = kept.currentWait(work, job) or '', hasFlag(job, 'n') and '1' or ''
  for _, id in ipairs(kept.blockers(work, job)) do
    local parent = jobOf(work, id)
    local about = parent and { id, parent.state, parent.type, parent.queue } or { id, '', '', '' }
    for _, value in ipairs(about) do values[#values + 1] = value end
  end
  return values
end)
`

const AHEAD_MAX = 10_000
const WORKERS_MAX = 50

/** What is elsewhere in a cluster: the shard that knows the workers, and limits by name. */
export interface Elsewhere {
  readonly home: Redis
  readonly limitsNamed: (names: readonly string[]) => Promise<readonly KeptLimit[]>
}

export async function standing(redis: Redis, id: string, elsewhere?: Elsewhere): Promise<Standing | null> {
  const [{ value, nowMs }, live] = await Promise.all([
    redis.read<unknown[]>('look', 'standing', [shortId(id)]),
    liveWorkers(elsewhere?.home ?? redis),
  ])
  if (value.length === 0) return null
  const job = summaryOf(readSeen(value.slice(0, JOB_VALUES) as string[]))
  const [paused, ahead, holder, ofFlow, wait, forChildren, ...parents] = value.slice(JOB_VALUES) as [
    ...[string, string, string, unknown[], string, string],
    ...string[],
  ]
  const limits = elsewhere === undefined ? [] : await elsewhere.limitsNamed(job.flow?.limits ?? [])
  const flow = readFlowStanding(ofFlow, job.flow, nowMs, limits)
  return {
    job,
    queuePaused: paused === '1',
    ahead: { count: Math.min(Number(ahead), AHEAD_MAX), isExact: Number(ahead) <= AHEAD_MAX },
    ...(forChildren === '' ? {} : { waitsForChildren: true as const }),
    parents: readParents(parents),
    workers: live
      .filter((worker) => worker.queues.includes(job.queue))
      .slice(0, WORKERS_MAX)
      .map((worker) => ({ ...worker, knowsType: worker.types === null || worker.types.includes(job.type) })),
    keyHeldBy: holder === '' ? null : longId(holder),
    nowMs,
    ...(wait === '' ? {} : { wait: waitView(wait) }),
    ...(flow === null ? {} : { flow }),
  }
}

function readParents(values: readonly string[]): Standing['parents'] {
  const parents: Standing['parents'][number][] = []
  for (let at = 0; at < values.length; at += 4) {
    const [id, state, type, queue] = values.slice(at, at + 4) as [string, string, string, string]
    const isKnown = state !== ''
    parents.push({
      id: longId(id),
      state: isKnown ? stateOfLetter(state) : null,
      type: isKnown ? type : null,
      queue: isKnown ? queue : null,
    })
  }
  return parents
}
