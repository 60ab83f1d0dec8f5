// Leases of running jobs: begun, made to last longer, watched. ◄── worker/heartbeat.ts

import { type Lease, leaseOf } from '../../core/job.js'
import type { Extension, Watch } from '../../core/job-store.js'
import { shortId } from './ids.js'
import { lua } from './lua.js'
import type { Redis } from './redis.js'

/**
 * ARGV of extend: leaseMs, then id and fence of each lease; of begin and watch: '' and the same.
 * extend and watch answer for each lease with one word: 'held', 'cancelled', 'settled' or 'lost'.
 */
export const EXTEND: string = lua`
local function eachLease(work, args, visit)
  local ids, words = {}, {}
  for i = 4, #args, 2 do ids[#ids + 1] = args[i] end
  load(work, 's', ids)
  for i = 4, #args, 2 do
    local job, fence = leasedJob(work, args[i]), tonumber(args[i + 1])
    if job and job.state == 'R' and job.fence == fence then
      visit(job)
      words[#words + 1] = hasFlag(job, 'c') and 'cancelled' or 'held'
    else
      words[#words + 1] = repeated(job, fence)
    end
  end
  return words
end

writes('extend', { 'allow-oom' }, function(work, args)
  local leasedUntil = work.t + tonumber(args[3])
  return eachLease(work, args, function(job) setScore(work, 'leases', job.id, leasedUntil) end)
end)

writes('begin', { 'allow-oom' }, function(work, args)
  eachLease(work, args, function(job)
    addFlag(job, 'b')
    save(work, job)
  end)
  return {}
end)

reads('watch', function(work, args) return eachLease(work, args, function() end) end)
`

export async function begin(redis: Redis, leases: readonly Lease[]): Promise<void> {
  if (leases.length > 0) await redis.write('settle', 'begin', ['', ...leaseArgs(leases)])
}

export async function extend(
  redis: Pick<Redis, 'write'>,
  leases: readonly Lease[],
  leaseMs: number,
): Promise<Extension> {
  if (leases.length === 0) return { lost: [], cancelled: [] }
  const { value } = await redis.write<string[]>('extend', 'extend', [leaseMs, ...leaseArgs(leases)])
  const { lost, cancelled } = sortOut(leases, value)
  return { lost, cancelled }
}

export async function watch(redis: Redis, leases: readonly Lease[]): Promise<Watch> {
  if (leases.length === 0) return { lost: [], cancelled: [], settled: [] }
  const { value } = await redis.read<string[]>('extend', 'watch', ['', ...leaseArgs(leases)])
  return sortOut(leases, value)
}

function leaseArgs(leases: readonly Lease[]): string[] {
  return leases.flatMap(({ id, fence }) => [shortId(id), String(fence)])
}

function sortOut(leases: readonly Lease[], words: readonly string[]): Watch {
  const those = (...wanted: string[]) => leases.filter((_, index) => wanted.includes(words[index]!)).map(leaseOf)
  return { lost: those('lost', 'settled'), cancelled: those('cancelled'), settled: those('settled') }
}
