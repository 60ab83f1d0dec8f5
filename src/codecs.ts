// The codecs that come with the package: encryption and compression.

import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import { gunzipSync, gzipSync } from 'node:zlib'
import type { PayloadCodec } from './client/codec-store.js'
import { checkKeys, checkWhole } from './core/check.js'
import { HoldfastError, invalidOption } from './core/errors.js'

const ALGORITHM = 'aes-256-gcm'
const KEY_BYTES = 32
const IV_BYTES = 12
const TAG_BYTES = 16
const KEYS_MAX = 100
const KEY_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$/

export interface AesOptions {
  /** The keys by name, each of 32 bytes, or as text in base64. Old ones stay here as long as jobs are sealed with them. */
  readonly keys: Readonly<Record<string, Uint8Array | string>>
  /** The name of the key that seals from now on. Default: the only one. */
  readonly use?: string
}

/** Encrypts payloads with AES-256-GCM. What was changed is not opened. */
export function aes256gcm(options: AesOptions): PayloadCodec {
  checkKeys('aes256gcm', options, ['keys', 'use'])
  const keys = readKeys(options.keys)
  const names = [...keys.keys()]
  if (options.use === undefined && names.length > 1)
    throw invalidOption(`aes256gcm needs use: one of ${names.join(', ')}`)
  const use = options.use ?? names[0]!
  const current = keys.get(use)
  if (current === undefined) throw invalidOption(`aes256gcm: use must be one of its keys (${names.join(', ')})`, use)
  return {
    name: ALGORITHM,
    hasKey: (key) => key !== null && keys.has(key),
    seal(bytes) {
      const iv = randomBytes(IV_BYTES)
      const cipher = createCipheriv(ALGORITHM, current, iv).setAAD(Buffer.from(use))
      const sealed = Buffer.concat([cipher.update(bytes), cipher.final()])
      return { key: use, bytes: Buffer.concat([iv, cipher.getAuthTag(), sealed]) }
    },
    open(bytes, key) {
      const sealed = Buffer.from(bytes)
      const decipher = createDecipheriv(ALGORITHM, keys.get(key!)!, sealed.subarray(0, IV_BYTES), {
        authTagLength: TAG_BYTES,
      })
      decipher.setAAD(Buffer.from(key!)).setAuthTag(sealed.subarray(IV_BYTES, IV_BYTES + TAG_BYTES))
      try {
        return Buffer.concat([decipher.update(sealed.subarray(IV_BYTES + TAG_BYTES)), decipher.final()])
      } catch (cause) {
        throw new HoldfastError(
          'invalid_payload',
          `the payload does not open with the key "${key}": it was changed, or sealed with another key of that name`,
          { cause },
        )
      }
    },
  }
}

// No key is ever part of a message.
function readKeys(keys: unknown): ReadonlyMap<string, Uint8Array> {
  const entries = typeof keys === 'object' && keys !== null ? Object.entries(keys) : []
  if (entries.length === 0 || entries.length > KEYS_MAX) {
    throw invalidOption(`aes256gcm: keys must be an object with 1 to ${KEYS_MAX} keys by name, got ${entries.length}`)
  }
  return new Map(
    entries.map(([name, key]) => {
      if (!KEY_NAME.test(name))
        throw invalidOption('aes256gcm: the name of a key must be 1 to 40 letters, digits or . _ -', name)
      const bytes = typeof key === 'string' ? Buffer.from(key, 'base64') : key
      if (bytes instanceof Uint8Array && bytes.length === KEY_BYTES) return [name, bytes]
      const got = bytes instanceof Uint8Array ? `${bytes.length} bytes` : typeof key
      throw invalidOption(`aes256gcm: key "${name}" must be ${KEY_BYTES} bytes, or base64 of them, got ${got}`)
    }),
  )
}

/** A payload that opens to more than this was made to fill memories. */
const OPENED_BYTES_MAX = 64 * 1024 * 1024

export interface GzipOptions {
  /** Smaller payloads are left as they are. Default 1,024. */
  readonly fromBytes?: number
}

/** Compresses payloads. Before encryption: encrypted bytes do not get smaller. */
export function gzip(options: GzipOptions = {}): PayloadCodec {
  checkKeys('gzip', options, ['fromBytes'])
  const fromBytes = checkWhole('gzip: fromBytes', options.fromBytes ?? 1_024, 0, OPENED_BYTES_MAX)
  return {
    name: 'gzip',
    hasKey: (key) => key === null,
    seal(bytes) {
      if (bytes.length < fromBytes) return null
      const sealed = gzipSync(bytes)
      // With base64 around it, which takes a third more.
      return sealed.length * 1.34 < bytes.length ? { bytes: sealed, key: null } : null
    },
    open(bytes) {
      try {
        return gunzipSync(bytes, { maxOutputLength: OPENED_BYTES_MAX })
      } catch (cause) {
        throw new HoldfastError('invalid_payload', `the payload does not unpack: ${(cause as Error).message}`, {
          cause,
        })
      }
    },
  }
}
