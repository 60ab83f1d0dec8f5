// Effects in doubt. ◄── operator-calls.ts

import { checkId, checkKeys, checkName, checkWhole } from '../core/check.js'
import { invalidOption } from '../core/errors.js'
import type { KeptStore } from '../core/kept/contract.js'
import { checkKeptName, type DoubtfulEffect } from '../core/kept/kept.js'
import { PAGE_MAX } from '../core/operator-store.js'

export interface DoubtfulOptions {
  /** Those of one job. */
  readonly id?: string
  /** Those of jobs in these queues. */
  readonly queues?: readonly string[] | null
  /** From 1 to 200. Default 50. */
  readonly limit?: number
  /** Where the last page ended. */
  readonly cursor?: string | null
}

export interface DoubtfulList {
  /** By job and key. */
  readonly effects: readonly DoubtfulEffect[]
  /** For the next page; null at the end. */
  readonly cursor: string | null
}

export async function doubtful(store: KeptStore, options: DoubtfulOptions = {}): Promise<DoubtfulList> {
  checkKeys('doubtful', options, ['id', 'queues', 'limit', 'cursor'])
  const { id, queues = null, limit = 50, cursor = null } = options
  if (queues !== null && !Array.isArray(queues)) throw invalidOption('queues must be an array of names', queues)
  const { effects, next } = await store.doubtful({
    id: id === undefined ? null : checkId('id', id),
    queues: queues?.map((queue) => checkName('queue', queue)) ?? null,
    limit: checkWhole('limit', limit, 1, PAGE_MAX),
    after: cursor === null ? null : readCursor(cursor),
  })
  return { effects, cursor: next === null ? null : `${next.id} ${next.key}` }
}

function readCursor(cursor: string): { readonly id: string; readonly key: string } {
  const [, id, key] = /^(\S{36}) (.*)$/s.exec(typeof cursor === 'string' ? cursor : '') ?? []
  if (id === undefined || key === undefined) throw invalidOption('cursor must be that of the page before', cursor)
  return { id: checkId('cursor', id), key: checkKeptName('cursor', key) }
}
