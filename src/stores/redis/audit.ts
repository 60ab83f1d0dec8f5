// The audit log: a stream of who did what. The id of an entry is its line.

import type { AuditEntry, AuditPage, AuditRecord, AuditRequest } from '../../core/operating.js'
import type { PruneAuditOptions } from '../../core/upkeep-store.js'
import { longId, shortId } from './ids.js'
import { lua } from './lua.js'
import type { Reply } from './port.js'
import type { Redis } from './redis.js'

/** record: ARGV actor, action, job or '', target or '', details or ''. pruneAudit: ARGV how long lines are kept, the most lines, the most
 *  that go; answers with how many went. auditPage: ARGV line to begin below or '', count; answers with entries of the stream. */
export const AUDIT: string = lua`
writes('record', { 'allow-oom' }, function(work, args)
  audit(work, unpack(args, 3, 7))
  return {}
end)

writes('pruneAudit', { 'allow-oom' }, function(work, args)
  local keptMs, linesMax, goneMax = tonumber(args[3]), tonumber(args[4]), tonumber(args[5])
  local newest = tonumber(redis.call('HGET', work.b .. 'meta', 'audit') or 0)
  local gone = 0
  for _, entry in ipairs(redis.call('XRANGE', work.b .. 'audit', '-', '+', 'COUNT', goneMax)) do
    local line, at = tonumber(string.match(entry[1], '^%d+')), tonumber(entry[2][2])
    if at >= work.t - keptMs and line > newest - linesMax then break end
    later(work, 'XDEL', 'audit', entry[1])
    gone = gone + 1
  end
  return gone
end)

reads('auditPage', function(work, args)
  local from = args[3] == '' and '+' or '(' .. args[3] .. '-1'
  return redis.call('XREVRANGE', work.b .. 'audit', from, '-', 'COUNT', tonumber(args[4]))
end)
`

/** Lines that go in one call, and lines that one page looks through. */
const PRUNED_MAX = 5_000
const LOOKED_MAX = 20_000
const PORTION = 1_000

export async function record(redis: Redis, { actor, action, job, target, details }: AuditRecord): Promise<void> {
  const kept = details === undefined || details === null ? '' : (JSON.stringify(details) ?? '')
  await redis.write('operate', 'record', [actor, action, job ? shortId(job) : '', target ?? '', kept])
}

export async function pruneAudit(redis: Redis, { keptMs, linesMax }: PruneAuditOptions): Promise<number> {
  return (await redis.write<number>('upkeep', 'pruneAudit', [keptMs, linesMax, PRUNED_MAX])).value
}

export function audit(redis: Redis, request: AuditRequest): Promise<AuditPage> {
  return auditOf([redis], request)
}

/** The lines of all shards, in their one order. */
export async function auditOf(
  shards: readonly Redis[],
  { before, limit, action, actor, job }: AuditRequest,
): Promise<AuditPage> {
  const isWanted = (entry: AuditEntry) =>
    (action === undefined || entry.action === action) &&
    (actor === undefined || entry.actor === actor) &&
    (job === undefined || entry.job === job)
  const entries: AuditEntry[] = []
  let at = before
  for (let looked = 0; looked < LOOKED_MAX; looked += PORTION) {
    const read = shards.map((redis) => redis.read<Reply[]>('look', 'auditPage', [at ?? '', PORTION]))
    const found = (await Promise.all(read)).flatMap(({ value }) => value.map(readEntry))
    // The newest of all: below these a shard may have lines that it has not given.
    const lines = found.sort((one, other) => other.line - one.line).slice(0, PORTION)
    for (const entry of lines.filter(isWanted)) {
      if (entries.length === limit) return { entries, next: entries.at(-1)!.line }
      entries.push(entry)
    }
    if (lines.length < PORTION) return { entries, next: null }
    at = lines.at(-1)!.line
  }
  return { entries, next: at }
}

function readEntry(reply: Reply): AuditEntry {
  const [id, fields] = reply as [string, string[]]
  const values = new Map<string, string>()
  for (let at = 0; at < fields.length; at += 2) values.set(fields[at]!, fields[at + 1]!)
  const textOf = (name: string) => values.get(name) || null
  const job = textOf('job')
  const details = textOf('details')
  return {
    line: Number(id.split('-')[0]),
    at: new Date(Number(values.get('at'))),
    actor: values.get('actor') ?? '',
    action: values.get('action') ?? '',
    job: job === null ? null : longId(job),
    target: textOf('target'),
    details: details === null ? null : JSON.parse(details),
  }
}
