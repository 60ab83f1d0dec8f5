// What handlers in this child ask their worker for. A transaction stays here: the worker's statements come back and go through it.
// ◄── child-run.ts · the worker's side: answers.ts

import { HoldfastError } from '../core/errors.js'
import type { Queryable } from '../core/job-store.js'
import { type Ask, type FromChild, readError, type SentTx, sendError, type ToChild } from './protocol.js'

/** Asks in the name of one job. */
export type AskWorker = (what: Ask, tx?: Queryable) => Promise<unknown>

interface Open {
  readonly tx: Queryable | undefined
  readonly resolve: (value: unknown) => void
  readonly reject: (error: Error) => void
}

export class Asks {
  readonly #send: (message: FromChild) => void
  readonly #open = new Map<number, Open>()
  #last = 0

  constructor(send: (message: FromChild) => void) {
    this.#send = send
  }

  /** Raises what the worker raised, and `invalid_option` for values that cannot be sent. */
  ask(seq: number, what: Ask, tx?: Queryable): Promise<unknown> {
    const ask = ++this.#last
    return new Promise((resolve, reject) => {
      this.#open.set(ask, { tx, resolve, reject })
      try {
        this.#send({ kind: 'ask', ask, seq, what, tx: tx === undefined ? null : sentTx(tx) })
      } catch (cause) {
        this.#open.delete(ask)
        const why = (cause as Error)?.message ?? cause
        const message = `what the handler asked for cannot be sent to its worker: ${why}; give plain values`
        reject(new HoldfastError('invalid_option', message, { cause }))
      }
    })
  }

  told({ ask, value, error }: Extract<ToChild, { kind: 'told' }>): void {
    const open = this.#open.get(ask)
    this.#open.delete(ask)
    if (error === null) open?.resolve(value)
    else open?.reject(readError(error))
  }

  /** Sends a statement of the worker through the transaction that it was given. */
  async query({ query, ask, text, values }: Extract<ToChild, { kind: 'query' }>): Promise<void> {
    try {
      const tx = this.#open.get(ask)?.tx
      if (tx === undefined) throw new Error(`call ${ask}, which had a transaction, is over`)
      const { rows } = await tx.query(text, values)
      this.#send({ kind: 'answer', query, rows, error: null })
    } catch (error) {
      this.#send({ kind: 'answer', query, rows: null, error: sendError(error) })
    }
  }
}

/** What the worker looks at before it uses a transaction. */
function sentTx(tx: Queryable): SentTx {
  const { connect, totalCount, idleCount, getTransactionStatus } = tx as unknown as Record<string, unknown>
  const isPool = typeof connect === 'function' && typeof totalCount === 'number' && typeof idleCount === 'number'
  const status: unknown = typeof getTransactionStatus === 'function' ? getTransactionStatus.call(tx) : null
  return { isPool, status: typeof status === 'string' ? status : null }
}
