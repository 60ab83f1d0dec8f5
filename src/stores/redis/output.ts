// Output of running jobs: output:<id> is a stream with an entry for each piece. Its id is the place where the piece begins, plus one, so that
// a reader begins anywhere. The flag w in a job's standing says that it has some.

import { OUTPUT_PAGE_LENGTH, type OutputWrite } from '../../core/kept/contract.js'
import type { OutputChunk, OutputPage } from '../../core/kept/kept.js'
import { shortId } from './ids.js'
import { lua } from './lua.js'
import type { Redis } from './redis.js'

/**
 * write: ARGV for each of the writes: id, fence, number of pieces; then for each piece: where it begins, where it ends, its text as JSON.
 *   Answers for each of the writes with '1', or '' when the lease no longer holds.
 * read: ARGV id, where to begin, about how many characters. Answers with '1' when the output is over or '', then five values for each piece:
 *   where it begins, where it ends, attempt, time, text. Nothing when there is no such job.
 */
export const OUTPUT: string = lua`
-- Pieces of one XRANGE. One piece can be large.
local PIECES = 16

writes('write', { 'allow-oom' }, function(work, args)
  local answer, i = {}, 3
  while i <= #args do
    local job, count = heldJob(work, args[i], args[i + 1]), tonumber(args[i + 2])
    for piece = i + 3, i + 3 * count, 3 do
      local from = tonumber(args[piece])
      -- What begins before the end is there already: the call was repeated.
      if job and from >= kept.outputEnd(work, job) then
        later(work, 'XADD', 'output:' .. job.id, text(from + 1) .. '-1', 'next', args[piece + 1], 'attempt', tostring(job.attempt),
          'at', text(work.t), 'text', args[piece + 2])
        work.outputEnds[job.id] = tonumber(args[piece + 1])
        addFlag(job, 'w')
        save(work, job)
      end
    end
    answer[#answer + 1] = job and '1' or ''
    i = i + 3 + 3 * count
  end
  return answer
end)

reads('read', function(work, args)
  local job, from, most = jobOf(work, args[3]), tonumber(args[4]), tonumber(args[5])
  if not job then return {} end
  local answer, length, isEnd = { '' }, 0, not hasFlag(job, 'w')
  while not isEnd do
    local entries = redis.call('XRANGE', work.b .. 'output:' .. job.id, text(from + 1), '+', 'COUNT', PIECES)
    for _, entry in ipairs(entries) do
      if length >= most then return answer end
      local begins, fields = tonumber(string.match(entry[1], '^%d+')) - 1, entry[2]
      for _, value in ipairs({ text(begins), fields[2], fields[4], fields[6], fields[8] }) do answer[#answer + 1] = value end
      from = tonumber(fields[2])
      length = length + from - begins
    end
    isEnd = #entries < PIECES
  end
  answer[1] = isFinished(job.state) and '1' or ''
  return answer
end)
`

export async function write(redis: Redis, writes: readonly OutputWrite[]): Promise<boolean[]> {
  if (writes.length === 0) return []
  const args = writes.flatMap(({ id, fence, offset, chunks }) => {
    const pieces: (string | number)[] = []
    let at = offset
    for (const text of chunks) {
      // JSON: a text may have half of a character, which is no UTF-8. An empty piece is none.
      if (text !== '') pieces.push(at, at + text.length, JSON.stringify(text))
      at += text.length
    }
    return [shortId(id), fence, pieces.length / 3, ...pieces]
  })
  const { value } = await redis.write<string[]>('settle', 'write', args)
  return value.map((word) => word === '1')
}

const VALUES = 5

export async function read(
  redis: Redis,
  { id, from }: { readonly id: string; readonly from: number },
): Promise<OutputPage | null> {
  const { value } = await redis.read<string[]>('look', 'read', [shortId(id), from, OUTPUT_PAGE_LENGTH])
  if (value.length === 0) return null
  const chunks: OutputChunk[] = []
  for (let at = 1; at < value.length; at += VALUES) {
    const [offset, next, attempt, atMs, text] = value.slice(at, at + VALUES) as [string, string, string, string, string]
    chunks.push({
      ...{ offset: Number(offset), next: Number(next), text: JSON.parse(text) as string },
      ...{ attempt: Number(attempt), at: new Date(Number(atMs)) },
    })
  }
  return { chunks, isOver: value[0] === '1' }
}
