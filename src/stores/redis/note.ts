// Keeps progress and log lines of running jobs.

import type { JobNote } from '../../core/job.js'
import { shortId } from './ids.js'
import { lua } from './lua.js'
import type { Redis } from './redis.js'

/** ARGV for each note: id, fence, progress or '', number of log lines, the lines as "<ms> <JSON text>". */
export const NOTE: string = lua`
writes('note', { 'allow-oom' }, function(work, args)
  local i = 3
  while i <= #args do
    local job, fence, progress, lines = leasedJob(work, args[i]), tonumber(args[i + 1]), args[i + 2], tonumber(args[i + 3])
    if job and job.state == 'R' and job.fence == fence then
      if progress ~= '' then setExtra(work, job, 'p', progress) end
      for line = i + 4, i + 3 + lines do
        addFlag(job, 'o')
        later(work, 'RPUSH', 'o:' .. job.id, args[line])
      end
      save(work, job)
    end
    i = i + 4 + lines
  end
  return {}
end)
`

export async function note(redis: Redis, notes: readonly JobNote[]): Promise<void> {
  if (notes.length === 0) return
  const args = notes.flatMap(({ id, fence, progress, logs }) => {
    const lines = logs.map(({ atMs, text }) => `${atMs} ${JSON.stringify(text)}`)
    return [shortId(id), String(fence), progress ?? '', String(lines.length), ...lines]
  })
  await redis.write('settle', 'note', args)
}
