// API keys: kept by their hash, found by their id.

import type { ApiKey, KeyScope, NewApiKey } from '../../core/operating.js'
import { record } from './audit.js'
import type { Database } from './database.js'
import { arrayOf, type Row, readDate, readJson, statement } from './statement.js'

const COLUMNS = `encode(hash, 'hex'), id, name, array_to_json(scopes), array_to_json(queues),
       (extract(epoch FROM created_at) * 1000)::float8, (extract(epoch FROM expires_at) * 1000)::float8,
       (extract(epoch FROM revoked_at) * 1000)::float8, (extract(epoch FROM last_used_at) * 1000)::float8`

// Only findKey reads the hash.
function readKey([, id, name, scopes, queues, createdAt, expiresAt, revokedAt, lastUsedAt]: Row): ApiKey {
  return {
    id: id!,
    name: name!,
    scopes: readJson(scopes) as KeyScope[],
    queues: readJson(queues) as string[] | null,
    createdAt: readDate(createdAt)!,
    expiresAt: readDate(expiresAt),
    revokedAt: readDate(revokedAt),
    lastUsedAt: readDate(lastUsedAt),
  }
}

const CREATE = statement(
  'create_key',
  `
INSERT INTO :schema.api_keys (id, hash, name, scopes, queues, created_at, expires_at)
VALUES ($2, decode($3, 'hex'), $4, $5::text[], $6::text[], coalesce($1::timestamptz, clock_timestamp()),
        to_timestamp($7::float8 / 1000))
    ON CONFLICT DO NOTHING
RETURNING ${COLUMNS}`,
)

export async function createKey(db: Database, key: NewApiKey, by: string): Promise<ApiKey> {
  const { id, hash, name, scopes, queues, expiresAtMs } = key
  return db.transaction('operate', async (send) => {
    const held = queues === null ? null : arrayOf(queues)
    const [made] = await send(CREATE, [db.now(), id, hash, name, arrayOf(scopes), held, expiresAtMs])
    if (made === undefined) return readKey((await send(FIND, [id]))[0]!)
    await record(db, send, { actor: by, action: 'create key', target: id, details: { name, scopes, queues } })
    return readKey(made)
  })
}

const KEYS = statement('api_keys', `SELECT ${COLUMNS} FROM :schema.api_keys ORDER BY created_at DESC, id LIMIT 1000`)

export async function apiKeys(db: Database): Promise<readonly ApiKey[]> {
  return (await db.send('look', KEYS, [])).map(readKey)
}

const FIND = statement('find_key', `SELECT ${COLUMNS} FROM :schema.api_keys WHERE id = $1`)

export async function findKey(db: Database, id: string): Promise<(ApiKey & { readonly hash: string }) | null> {
  const [row] = await db.send('identify', FIND, [id])
  if (row === undefined) return null
  const [hash] = row
  return { ...readKey(row), hash: hash! }
}

const REVOKE = statement(
  'revoke_key',
  `
UPDATE :schema.api_keys
   SET revoked_at = coalesce($1::timestamptz, clock_timestamp())
 WHERE id = $2
   AND revoked_at IS NULL
RETURNING ${COLUMNS}`,
)

export async function revokeKey(db: Database, id: string, by: string): Promise<ApiKey | null> {
  return db.transaction('operate', async (send) => {
    const [revoked] = await send(REVOKE, [db.now(), id])
    if (revoked !== undefined) {
      await record(db, send, { actor: by, action: 'revoke key', target: id })
      return readKey(revoked)
    }
    const [known] = await send(FIND, [id])
    return known === undefined ? null : readKey(known)
  })
}

const TOUCH = statement(
  'touch_key',
  `
UPDATE :schema.api_keys
   SET last_used_at = moment.now
  FROM (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now) AS moment
 WHERE id = $2
   AND (last_used_at IS NULL OR last_used_at <= moment.now - interval '1 minute')`,
)

export async function touchKey(db: Database, id: string): Promise<void> {
  await db.send('operate', TOUCH, [db.now(), id])
}
