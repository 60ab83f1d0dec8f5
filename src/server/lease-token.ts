// What a remote worker gets of its claim, and sends back to extend or settle it: encrypted with a secret that all servers on the store
// share. So any server can settle what another one claimed, and nobody can forge a fence or a limit. It is not bound to an API key: a
// worker whose key is replaced meanwhile can still settle. It is of no use without a key for the queue of its job.

import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto'
import type { Client } from '../client/client.js'
import type { RemoteLease } from '../client/remote-work.js'
import { Refusal } from './problem.js'

const ALGORITHM = 'aes-256-gcm'
const IV_BYTES = 12
const TAG_BYTES = 16

/** Seals and opens the tokens of one store. */
export class LeaseTokens {
  readonly #key: Buffer

  private constructor(key: Buffer) {
    this.#key = key
  }

  static async of(holdfast: Client): Promise<LeaseTokens> {
    const key = createHash('sha256')
      .update(`lease ${await holdfast.sharedSecret()}`)
      .digest()
    return new LeaseTokens(key)
  }

  seal(lease: RemoteLease): string {
    const { id, fence, queue, type, attempt, crashes, createdAtMs, claimedAtMs, limits, idempotencyKey, flow } = lease
    const facts = { id, fence, queue, type, attempt, crashes, createdAtMs, claimedAtMs, limits, idempotencyKey, flow }
    const iv = randomBytes(IV_BYTES)
    const cipher = createCipheriv(ALGORITHM, this.#key, iv)
    const sealed = Buffer.concat([cipher.update(JSON.stringify(facts)), cipher.final()])
    return Buffer.concat([iv, cipher.getAuthTag(), sealed]).toString('base64url')
  }

  /** Raises 400 for anything that was not sealed for this store. */
  open(token: string, place: string): RemoteLease {
    const bytes = Buffer.from(token, 'base64url')
    try {
      if (bytes.length <= IV_BYTES + TAG_BYTES) throw new Error('shorter than any lease')
      const decipher = createDecipheriv(ALGORITHM, this.#key, bytes.subarray(0, IV_BYTES))
      decipher.setAuthTag(bytes.subarray(IV_BYTES, IV_BYTES + TAG_BYTES))
      const text = Buffer.concat([decipher.update(bytes.subarray(IV_BYTES + TAG_BYTES)), decipher.final()])
      return JSON.parse(text.toString())
    } catch {
      throw new Refusal(
        400,
        'invalid_option',
        `${place}: this is no lease: send the \`lease\` of a job as the claim gave it`,
      )
    }
  }
}
