// Bulk actions: written down, then done in batches.

import { BULK_BATCH_MAX, type BulkProgress, type BulkState, type BulkView, type NewBulk } from '../../core/operating.js'
import type { CancelResult, DeleteResult, RequeueResult } from '../../core/operator-store.js'
import { writeLine } from './audit.js'
import { cancel } from './cancel.js'
import { copyOf } from './copy.js'
import { deleteJobs } from './delete.js'
import { matchingJobs } from './list.js'
import type { KeptBulk, Memory } from './memory.js'
import { compareText } from './ordered.js'
import { discard, requeue } from './requeue.js'

export function startBulk(memory: Memory, bulk: NewBulk, nowMs: number): BulkView {
  const known = memory.bulks.get(bulk.id)
  if (known !== undefined) return viewOf(known)
  const now = new Date(nowMs)
  const fresh = { matched: 0, done: 0, refused: 0, createdAt: now, updatedAt: now, error: null, cursor: null }
  const kept: KeptBulk = { ...copyOf(bulk), state: 'waiting', ...fresh }
  memory.bulks.set(bulk.id, kept)
  const { action, filter, limit, perSecond } = bulk
  const details = { action, filter, limit, perSecond }
  writeLine(memory, { actor: bulk.by, action: 'start bulk', target: bulk.id, details }, nowMs)
  return viewOf(kept)
}

export function bulks(memory: Memory, limit: number): BulkView[] {
  return [...memory.bulks.values()]
    .sort((one, other) => compareText(other.id, one.id))
    .slice(0, limit)
    .map(viewOf)
}

export function getBulk(memory: Memory, id: string): BulkView | null {
  const kept = memory.bulks.get(id)
  return kept === undefined ? null : viewOf(kept)
}

export function cancelBulk(memory: Memory, id: string, by: string, nowMs: number): BulkView | null {
  const kept = memory.bulks.get(id)
  if (kept === undefined) return null
  if (!isOpen(kept)) return viewOf(kept)
  const ended: KeptBulk = { ...kept, state: 'cancelled', updatedAt: new Date(nowMs) }
  memory.bulks.set(id, ended)
  writeLine(memory, { actor: by, action: 'cancel bulk', target: id }, nowMs)
  return viewOf(ended)
}

export function stepBulk(memory: Memory, nowMs: number): BulkProgress | null {
  const bulk = nextDue(memory, nowMs)
  if (bulk === undefined) return null
  const batch = Math.min(batchMax(bulk, nowMs), bulk.limit - bulk.matched)
  const open = matchingJobs(memory, bulk.filter, nowMs)
    .filter(({ facts, createdAtMs }) => {
      return (bulk.cursor === null || facts.id < bulk.cursor) && createdAtMs <= bulk.createdAt.getTime()
    })
    .map(({ facts }) => facts.id)
  const ids = open.slice(0, batch)
  const moved = act(memory, bulk, ids, nowMs).filter(isDone).length
  const matched = bulk.matched + ids.length
  const isOver = ids.length === open.length || matched >= bulk.limit
  const state: BulkState = isOver ? 'done' : 'running'
  memory.bulks.set(bulk.id, {
    ...bulk,
    state,
    matched,
    done: bulk.done + moved,
    refused: bulk.refused + ids.length - moved,
    cursor: ids.at(-1) ?? bulk.cursor,
    updatedAt: new Date(nowMs),
  })
  return { id: bulk.id, action: bulk.action, moved, refused: ids.length - moved, state }
}

/** The action that has waited longest, among those that may do a batch now. */
function nextDue(memory: Memory, nowMs: number): KeptBulk | undefined {
  return [...memory.bulks.values()]
    .filter((bulk) => isOpen(bulk) && batchMax(bulk, nowMs) > 0)
    .sort((one, other) => one.updatedAt.getTime() - other.updatedAt.getTime() || compareText(one.id, other.id))[0]
}

/** How many jobs its rate limit allows since the last batch, and at most the jobs of one second. */
function batchMax({ perSecond, updatedAt }: BulkView, nowMs: number): number {
  if (perSecond === null) return BULK_BATCH_MAX
  const earned = Math.floor((perSecond * (nowMs - updatedAt.getTime())) / 1_000)
  return Math.min(BULK_BATCH_MAX, perSecond, earned)
}

type Acted = CancelResult | RequeueResult | DeleteResult

function act(memory: Memory, bulk: BulkView, ids: readonly string[], nowMs: number): Acted[] {
  if (bulk.action === 'cancel') return cancel(memory, ids, bulk.by, nowMs)
  if (bulk.action === 'requeue') return requeue(memory, ids, bulk.by, nowMs)
  if (bulk.action === 'delete') return deleteJobs(memory, ids, bulk.by, nowMs)
  return discard(memory, ids, bulk.by, nowMs)
}

function isDone({ result }: Acted): boolean {
  return result !== 'refused' && result !== 'missing'
}

function isOpen({ state }: BulkView): boolean {
  return state === 'waiting' || state === 'running'
}

function viewOf({ cursor: _, ...view }: KeptBulk): BulkView {
  return view
}
