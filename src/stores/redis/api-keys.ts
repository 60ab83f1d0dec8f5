// API keys: kept by their hash, found by their id. `apikeys` has "<created> <revoked> <used>\n<JSON>" for each.

import type { ApiKey, NewApiKey } from '../../core/operating.js'
import { lua } from './lua.js'
import type { Redis } from './redis.js'

/**
 * createKey: ARGV id, JSON, who, details for the audit log. revokeKey: ARGV id, who. touchKey: ARGV id, the least time between two uses.
 * keys: ARGV id, or none for all; answers with id and value of each. secret: ARGV a new one; answers with the one that holds.
 */
export const API_KEYS: string = lua`
local function keyParts(work, id)
  local value = redis.call('HGET', work.b .. 'apikeys', id)
  if not value then return nil end
  return string.match(value, '^(%S+) (%S+) (%S+)\n(.*)$')
end

writes('createKey', {}, function(work, args)
  local id, json, by, details = unpack(args, 3, 6)
  if not keyParts(work, id) then
    setField(work, 'apikeys', id, text(work.t) .. ' - -\n' .. json)
    audit(work, by, 'create key', '', id, details)
  end
  return {}
end)

writes('revokeKey', { 'allow-oom' }, function(work, args)
  local id, by = args[3], args[4]
  local created, revoked, used, json = keyParts(work, id)
  if created and revoked == '-' then
    setField(work, 'apikeys', id, created .. ' ' .. text(work.t) .. ' ' .. used .. '\n' .. json)
    audit(work, by, 'revoke key', '', id, '')
  end
  return {}
end)

writes('touchKey', { 'allow-oom' }, function(work, args)
  local id = args[3]
  local created, revoked, used, json = keyParts(work, id)
  if created and (used == '-' or work.t - used >= tonumber(args[4])) then
    setField(work, 'apikeys', id, created .. ' ' .. revoked .. ' ' .. text(work.t) .. '\n' .. json)
  end
  return {}
end)

reads('keys', function(work, args)
  if not args[3] then return redis.call('HGETALL', work.b .. 'apikeys') end
  local value = redis.call('HGET', work.b .. 'apikeys', args[3])
  return value and { args[3], value } or {}
end)

writes('secret', { 'allow-oom' }, function(work, args)
  local known = redis.call('HGET', work.b .. 'meta', 'secret')
  if not known then setField(work, 'meta', 'secret', args[3]) end
  return known or args[3]
end)
`

const KEYS_MAX = 1_000
/** The last use is for people: once a minute is often enough. */
const TOUCH_MS = 60_000

type KeptKey = ApiKey & { readonly hash: string }

function readKeys(values: readonly string[]): KeptKey[] {
  const found: KeptKey[] = []
  for (let at = 0; at < values.length; at += 2) {
    const text = values[at + 1]!
    const end = text.indexOf('\n')
    const [created, revoked, used] = text.slice(0, end).split(' ') as [string, string, string]
    const { expiresAtMs, ...key } = JSON.parse(text.slice(end + 1)) as NewApiKey
    const dateOf = (ms: string) => (ms === '-' ? null : new Date(Number(ms)))
    found.push({
      ...key,
      createdAt: new Date(Number(created)),
      expiresAt: expiresAtMs === null ? null : new Date(expiresAtMs),
      revokedAt: dateOf(revoked),
      lastUsedAt: dateOf(used),
    })
  }
  return found
}

function viewOf({ hash: _, ...key }: KeptKey): ApiKey {
  return key
}

export async function createKey(redis: Redis, key: NewApiKey, by: string): Promise<ApiKey> {
  const { id, hash, name, scopes, queues, expiresAtMs } = key
  const details = JSON.stringify({ name, scopes, queues })
  await redis.write('operate', 'createKey', [
    id,
    JSON.stringify({ id, hash, name, scopes, queues, expiresAtMs }),
    by,
    details,
  ])
  return viewOf((await findKey(redis, id))!)
}

export async function apiKeys(redis: Redis): Promise<readonly ApiKey[]> {
  const { value } = await redis.read<string[]>('look', 'keys', [])
  return readKeys(value)
    .sort((one, other) => other.createdAt.getTime() - one.createdAt.getTime() || (one.id < other.id ? -1 : 1))
    .slice(0, KEYS_MAX)
    .map(viewOf)
}

export async function findKey(redis: Redis, id: string): Promise<KeptKey | null> {
  return readKeys((await redis.read<string[]>('look', 'keys', [id])).value)[0] ?? null
}

export async function revokeKey(redis: Redis, id: string, by: string): Promise<ApiKey | null> {
  await redis.write('operate', 'revokeKey', [id, by])
  const key = await findKey(redis, id)
  return key === null ? null : viewOf(key)
}

export async function touchKey(redis: Redis, id: string): Promise<void> {
  await redis.write('operate', 'touchKey', [id, TOUCH_MS])
}

/** A random text that every process on this store knows: the first that was ever offered. */
export async function sharedSecret(redis: Redis, offered: string): Promise<string> {
  return (await redis.write<string>('operate', 'secret', [offered])).value
}
