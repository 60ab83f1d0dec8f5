// API keys: kept by their hash, found by their id.

import type { ApiKey, NewApiKey } from '../../core/operating.js'
import { writeLine } from './audit.js'
import type { Memory } from './memory.js'
import { compareText } from './ordered.js'

const KEYS_MAX = 1_000
/** The last use is for people: once a minute is often enough. */
const TOUCH_MS = 60_000

export function createKey(memory: Memory, key: NewApiKey, by: string, nowMs: number): ApiKey {
  const known = memory.apiKeys.get(key.id)
  if (known !== undefined) return viewOf(known)
  const { id, name, scopes, queues, expiresAtMs } = key
  const dates = {
    createdAt: new Date(nowMs),
    expiresAt: expiresAtMs === null ? null : new Date(expiresAtMs),
    revokedAt: null,
    lastUsedAt: null,
  }
  const kept = { id, name, scopes: [...scopes], queues: queues === null ? null : [...queues], ...dates }
  memory.apiKeys.set(id, { ...kept, hash: key.hash })
  writeLine(memory, { actor: by, action: 'create key', target: id, details: { name, scopes, queues } }, nowMs)
  return kept
}

export function apiKeys(memory: Memory): ApiKey[] {
  return [...memory.apiKeys.values()]
    .sort((one, other) => other.createdAt.getTime() - one.createdAt.getTime() || compareText(one.id, other.id))
    .slice(0, KEYS_MAX)
    .map(viewOf)
}

export function findKey(memory: Memory, id: string): (ApiKey & { readonly hash: string }) | null {
  return memory.apiKeys.get(id) ?? null
}

export function revokeKey(memory: Memory, id: string, by: string, nowMs: number): ApiKey | null {
  const known = memory.apiKeys.get(id)
  if (known === undefined) return null
  if (known.revokedAt !== null) return viewOf(known)
  const revoked = { ...known, revokedAt: new Date(nowMs) }
  memory.apiKeys.set(id, revoked)
  writeLine(memory, { actor: by, action: 'revoke key', target: id }, nowMs)
  return viewOf(revoked)
}

export function touchKey(memory: Memory, id: string, nowMs: number): void {
  const known = memory.apiKeys.get(id)
  if (known === undefined) return
  if (known.lastUsedAt !== null && nowMs - known.lastUsedAt.getTime() < TOUCH_MS) return
  memory.apiKeys.set(id, { ...known, lastUsedAt: new Date(nowMs) })
}

function viewOf({ hash: _, ...key }: ApiKey & { readonly hash: string }): ApiKey {
  return key
}
