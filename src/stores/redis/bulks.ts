// Bulk actions: written down, then done in batches. Node finds the next jobs; the function does the batch only if no other process has
// done one of this action meanwhile.

import { BULK_BATCH_MAX, type BulkProgress, type BulkState, type BulkView, type NewBulk } from '../../core/operating.js'
import { LIST_WINDOW, type ListRequest, PAGE_MAX } from '../../core/operator-store.js'
import type { Deleting } from './delete.js'
import { longId, shortId } from './ids.js'
import { type FoundPage, findPage } from './list.js'
import { lua } from './lua.js'
import type { Redis } from './redis.js'

/**
 * startBulk: ARGV id, JSON, who, details for the audit log; answers with the eight values of a bulk action.
 * bulks: ARGV limit, or 'open' for those that are not over, or 'id' and an id; answers with eight values each: id, JSON, state,
 *        "<matched> <done> <refused>", created, updated, cursor or '', number of the last step.
 * cancelBulk: ARGV id, who; answers 1, or 0 when there is none.
 * stepBulk: ARGV id, number of the last step, action, who, new state, new cursor, ids. Answers with how many were done, or '' when another
 *           process has done a step.
 */
export const BULKS: string = lua`
local function bulkOf(work, id)
  local key = work.b .. 'bulk:' .. id
  local values = redis.call('HMGET', key, 'json', 'state', 'counts', 'created', 'updated', 'cursor', 'step')
  if not values[1] then return nil end
  return { id = id, json = values[1], state = values[2], counts = values[3], created = values[4], updated = values[5],
    cursor = values[6], step = values[7] }
end

local function eightValues(bulk)
  return { bulk.id, bulk.json, bulk.state, bulk.counts, bulk.created, bulk.updated, bulk.cursor, bulk.step }
end

local function saveBulk(work, bulk)
  for _, field in ipairs({ 'json', 'state', 'counts', 'created', 'updated', 'cursor', 'step' }) do
    setField(work, 'bulk:' .. bulk.id, field, bulk[field])
  end
  setScore(work, 'bulks', bulk.id, 0)
  setScore(work, 'openBulks', bulk.id, (bulk.state == 'waiting' or bulk.state == 'running') and 0 or false)
end

writes('startBulk', {}, function(work, args)
  local id, json, by, details = unpack(args, 3, 6)
  local bulk = bulkOf(work, id)
  if bulk then return eightValues(bulk) end
  local now = text(work.t)
  bulk = { id = id, json = json, state = 'waiting', counts = '0 0 0', created = now, updated = now, cursor = '', step = '0' }
  saveBulk(work, bulk)
  -- The id of a bulk action is shown as it was given.
  audit(work, by, 'start bulk', '', args[7], details)
  return eightValues(bulk)
end)

reads('bulks', function(work, args)
  local ids, answer = nil, {}
  if args[3] == 'id' then
    ids = { args[4] }
  elseif args[3] == 'open' then
    ids = redis.call('ZRANGE', work.b .. 'openBulks', 0, 999)
  else
    ids = redis.call('ZREVRANGE', work.b .. 'bulks', 0, tonumber(args[3]) - 1)
  end
  for _, id in ipairs(ids) do
    local bulk = bulkOf(work, id)
    for _, value in ipairs(bulk and eightValues(bulk) or {}) do answer[#answer + 1] = value end
  end
  return answer
end)

writes('cancelBulk', { 'allow-oom' }, function(work, args)
  local bulk = bulkOf(work, args[3])
  if not bulk then return 0 end
  if bulk.state ~= 'waiting' and bulk.state ~= 'running' then return 1 end
  bulk.state, bulk.updated = 'cancelled', text(work.t)
  saveBulk(work, bulk)
  audit(work, args[4], 'cancel bulk', '', args[5], '')
  return 1
end)

writes('stepBulk', {}, function(work, args)
  local id, step, action, by, state, cursor = unpack(args, 3, 8)
  local ids, bulk, answers, width, done = slice(args, 9), bulkOf(work, id), nil, 2, 0
  local isOpen = bulk and (bulk.state == 'waiting' or bulk.state == 'running')
  if not isOpen or bulk.step ~= step then return '' end
  if action == 'cancel' then
    answers = cancelAll(work, ids, by)
  elseif action == 'requeue' then
    answers, width = requeueAll(work, ids, by), 3
  elseif action == 'delete' then
    answers = deletes.all(work, ids, by)
  else
    answers = discardAll(work, ids, by)
  end
  for i = 1, #answers, width do
    if answers[i] ~= 'refused' and answers[i] ~= 'missing' and answers[i] ~= 'again' then done = done + 1 end
  end
  local matched, moved, refused = string.match(bulk.counts, '^(%d+) (%d+) (%d+)$')
  bulk.counts = (matched + #ids) .. ' ' .. (moved + done) .. ' ' .. (refused + #ids - done)
  bulk.state, bulk.cursor, bulk.updated, bulk.step = state, cursor, text(work.t), tostring(step + 1)
  saveBulk(work, bulk)
  return tostring(done)
end)
`

interface KeptBulk {
  readonly view: BulkView
  readonly cursor: string | null
  readonly step: string
}

const VALUES = 8

function readBulks(values: readonly string[]): KeptBulk[] {
  const found: KeptBulk[] = []
  for (let at = 0; at < values.length; at += VALUES) {
    const [, json, state, counts, created, updated, cursor, step] = values.slice(at, at + VALUES) as [
      ...[string, string, BulkState, string, string, string, string, string],
    ]
    const [matched, done, refused] = counts.split(' ').map(Number) as [number, number, number]
    const dates = { createdAt: new Date(Number(created)), updatedAt: new Date(Number(updated)) }
    const view = { ...(JSON.parse(json) as NewBulk), state, matched, done, refused, ...dates, error: null }
    found.push({ view, cursor: cursor === '' ? null : longId(cursor), step })
  }
  return found
}

export async function startBulk(redis: Redis, bulk: NewBulk): Promise<BulkView> {
  const { id, action, filter, limit, perSecond, by } = bulk
  const details = JSON.stringify({ action, filter, limit, perSecond })
  const args = [shortId(id), JSON.stringify(bulk), by, details, id]
  return readBulks((await redis.write<string[]>('operate', 'startBulk', args)).value)[0]!.view
}

export async function bulks(redis: Redis, limit: number): Promise<readonly BulkView[]> {
  return readBulks((await redis.read<string[]>('look', 'bulks', [limit])).value).map(({ view }) => view)
}

export async function getBulk(redis: Redis, id: string): Promise<BulkView | null> {
  return readBulks((await redis.read<string[]>('look', 'bulks', ['id', shortId(id)])).value)[0]?.view ?? null
}

export async function cancelBulk(redis: Redis, id: string, by: string): Promise<BulkView | null> {
  await redis.write('operate', 'cancelBulk', [shortId(id), by, id])
  return getBulk(redis, id)
}

/** The next batch of a bulk action: what the function that does it takes. */
export interface BulkStep {
  readonly view: BulkView
  readonly ids: readonly string[]
  readonly state: BulkState
  readonly args: readonly string[]
}

/** Finds the next batch of the action that is due, or null. */
export async function nextStep(redis: Redis, find: Find): Promise<BulkStep | null> {
  const { value, nowMs } = await redis.read<string[]>('upkeep', 'bulks', ['open'])
  const kept = nextDue(readBulks(value), nowMs)
  if (kept === undefined) return null
  const { view, cursor, step } = kept
  const { id, action, by } = view
  const room = Math.min(batchMax(view, nowMs), view.limit - view.matched)
  const found = await nextIds(find, view, cursor, room)
  const isOver = found.isEnd || view.matched + found.ids.length >= view.limit
  const state: BulkState = isOver ? 'done' : 'running'
  const next = found.cursor === null ? '' : shortId(found.cursor)
  const args = [shortId(id), step, action, by, state, next, ...found.ids.map(shortId)]
  return { view, ids: found.ids, state, args }
}

export async function stepBulk(redis: Redis, deleting: Deleting): Promise<BulkProgress | null> {
  const found = await nextStep(redis, (request) => findPage(redis, request))
  if (found === null) return null
  const { view, args, state, ids } = found
  const { id, action, by } = view
  const write = () => redis.write<string>('upkeep', 'stepBulk', args)
  const { value: done } = action === 'delete' ? await deleting.around(ids, by, write) : await write()
  // Another process was first, or somebody has ended it.
  if (done === '') return { id, action, moved: 0, refused: 0, state: view.state }
  return { id, action, moved: Number(done), refused: found.ids.length - Number(done), state }
}

/** The action that has waited longest, among those that may do a batch now. */
function nextDue(open: readonly KeptBulk[], nowMs: number): KeptBulk | undefined {
  return open
    .filter(({ view }) => batchMax(view, nowMs) > 0)
    .sort(
      (one, other) =>
        one.view.updatedAt.getTime() - other.view.updatedAt.getTime() || (one.view.id < other.view.id ? -1 : 1),
    )[0]
}

/** How many jobs its rate limit allows since the last batch, and at most the jobs of one second. */
function batchMax({ perSecond, updatedAt }: BulkView, nowMs: number): number {
  if (perSecond === null) return BULK_BATCH_MAX
  const earned = Math.floor((perSecond * (nowMs - updatedAt.getTime())) / 1_000)
  return Math.min(BULK_BATCH_MAX, perSecond, earned)
}

type Find = (request: ListRequest) => Promise<FoundPage>

interface NextIds {
  readonly ids: readonly string[]
  readonly cursor: string | null
  readonly isEnd: boolean
}

/** The next jobs that match and were created before the action, below its cursor. */
async function nextIds(find: Find, bulk: BulkView, cursor: string | null, room: number): Promise<NextIds> {
  const ids: string[] = []
  let before = cursor
  let searched = 0
  // Jobs that were created later are passed over, so one page may not be enough. What is left comes with the next step.
  while (searched < LIST_WINDOW) {
    const page = await find({ filter: bulk.filter, limit: Math.max(room + 1, PAGE_MAX), before })
    for (const { id, facts } of page.jobs) {
      if (facts.createdAtMs > bulk.createdAt.getTime()) continue
      // One more than there is room for tells that it is not over.
      if (ids.length === room) return { ids, cursor: ids.at(-1)!, isEnd: false }
      ids.push(id)
    }
    if (page.next === null) return { ids, cursor: ids.at(-1) ?? cursor, isEnd: true }
    before = page.next
    searched += page.searched
  }
  return { ids, cursor: before, isEnd: false }
}
