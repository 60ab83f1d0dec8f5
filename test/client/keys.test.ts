import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { openClient } from './support.js'

describe('an API key', () => {
  test('is shown once, and only its hash is kept', async () => {
    const { client, store } = await openClient()

    const { key, secret } = await client.createKey({ name: 'deploy', scopes: ['read', 'read'], queues: ['a'] })

    expect(secret).toMatch(/^hf_[0-9a-f]{12}_[A-Za-z0-9_-]{43}$/)
    expect(key).toMatchObject({ name: 'deploy', scopes: ['read'], queues: ['a'], expiresAt: null, revokedAt: null })
    expect(secret).toContain(key.id)
    expect((await store.findKey(key.id))!.hash).toBe(createHash('sha256').update(secret).digest('hex'))
    expect(JSON.stringify(await client.keys())).not.toContain(secret.slice(16))
  })

  test('is known again by its secret', async () => {
    const { client, clock } = await openClient()
    const { key, secret } = await client.createKey({ name: 'deploy', scopes: ['enqueue'] })

    expect(await client.authenticate(secret)).toEqual(key)
    await clock.advance(0)
    expect((await client.keys())[0]!.lastUsedAt).toEqual(new Date(clock.now()))
  })

  test('is not known by anything else', async () => {
    const { client } = await openClient()
    const { key, secret } = await client.createKey({ name: 'deploy', scopes: ['enqueue'] })
    const other = secret.endsWith('A') ? `${secret.slice(0, -1)}B` : `${secret.slice(0, -1)}A`

    for (const wrong of ['', key.id, other, `${secret}x`, secret.replace(key.id, '0'.repeat(12)), null, 7, {}]) {
      expect(await client.authenticate(wrong as string)).toBe(null)
    }
  })

  test('is refused once it is revoked', async () => {
    const { client } = await openClient()
    const { key, secret } = await client.createKey({ name: 'deploy', scopes: ['admin'] })

    const revoked = await client.revokeKey(key.id, { by: 'ann' })

    expect(revoked.revokedAt).not.toBe(null)
    expect(await client.authenticate(secret)).toBe(null)
  })

  test('is refused when its time is over', async () => {
    const { client, clock } = await openClient()
    const { key, secret } = await client.createKey({ name: 'deploy', scopes: ['read'], expiresIn: '1h' })
    await clock.advance(3_599_999)
    const before = await client.authenticate(secret)
    await clock.advance(1)

    expect(before?.id).toBe(key.id)
    expect(await client.authenticate(secret)).toBe(null)
  })

  test('may end on a date', async () => {
    const { client } = await openClient()

    const { key } = await client.createKey({ name: 'a', scopes: ['read'], expiresAt: '2030-01-01T00:00Z' })

    expect(key.expiresAt).toEqual(new Date('2030-01-01T00:00Z'))
  })

  test('is written down when it is made and when it is revoked', async () => {
    const { client } = await openClient()
    const { key, secret } = await client.createKey({ name: 'deploy', scopes: ['read'] }, { by: 'ann' })
    await client.revokeKey(key.id, { by: 'bob' })

    const { entries } = await client.audit()

    expect(entries.map(({ actor, action, target }) => [actor, action, target])).toEqual([
      ['bob', 'revoke key', key.id],
      ['ann', 'create key', key.id],
    ])
    expect(JSON.stringify(entries)).not.toContain(secret.slice(16))
  })
})
