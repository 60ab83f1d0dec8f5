// Cursors for callers limited to some queues. A page may end at another caller's job, and the cursor is that job's id. So it is
// encrypted for its caller, with a secret that all servers on the store share.

import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto'
import type { Client } from '../client/client.js'
import { Refusal } from './problem.js'
import type { Who } from './who.js'

const ALGORITHM = 'aes-256-gcm'
const IV_BYTES = 12
const TAG_BYTES = 16
const ID_BYTES = 16

export async function sealCursor(holdfast: Client, { principal }: Who, id: string): Promise<string> {
  const iv = randomBytes(IV_BYTES)
  const cipher = createCipheriv(ALGORITHM, await keyOf(holdfast), iv).setAAD(Buffer.from(principal))
  const sealed = Buffer.concat([cipher.update(id.replaceAll('-', ''), 'hex'), cipher.final()])
  return Buffer.concat([iv, cipher.getAuthTag(), sealed]).toString('base64url')
}

/** The id in a cursor. Raises 400 for one that was not made for this caller. */
export async function openCursor(holdfast: Client, { principal }: Who, cursor: string): Promise<string> {
  const bytes = Buffer.from(cursor, 'base64url')
  try {
    if (bytes.length !== IV_BYTES + TAG_BYTES + ID_BYTES) throw new Error('not as long as a cursor')
    const decipher = createDecipheriv(ALGORITHM, await keyOf(holdfast), bytes.subarray(0, IV_BYTES))
    decipher.setAAD(Buffer.from(principal)).setAuthTag(bytes.subarray(IV_BYTES, IV_BYTES + TAG_BYTES))
    const hex = Buffer.concat([decipher.update(bytes.subarray(IV_BYTES + TAG_BYTES)), decipher.final()]).toString('hex')
    return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
  } catch {
    throw new Refusal(
      400,
      'invalid_option',
      'query.cursor: this cursor is not from one of your pages: start without one',
    )
  }
}

async function keyOf(holdfast: Client): Promise<Buffer> {
  return createHash('sha256')
    .update(`cursor ${await holdfast.sharedSecret()}`)
    .digest()
}
