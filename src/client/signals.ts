// Signals to jobs. ◄── operator-calls.ts

import { checkId, checkKey, checkKeys } from '../core/check.js'
import { HoldfastError, isHoldfastError } from '../core/errors.js'
import type { JobStore } from '../core/job-store.js'
import type { KeptStore, NewSignal, SignalResult } from '../core/kept/contract.js'
import { checkKeptName, encodeKept, SIGNALS_MAX } from '../core/kept/kept.js'
import { type ByOption, resolveBy } from './job-actions.js'

export interface SignalOptions extends ByOption {
  /** Two signals of one job with the same key are one: give the id of the event that it is about, so that it may come twice. */
  readonly key?: string
}

/** A signal that is kept with its job. */
export interface SignalSent {
  readonly id: string
  /** True when the job waited for it and is ready now. */
  readonly woken: boolean
}

interface Call {
  readonly id: string
  readonly name: string
  readonly value: unknown
  readonly options: SignalOptions | undefined
}

/** The most signals, and the most characters of their values, that are sent together. */
const TOGETHER_MAX = 500
const TOGETHER_LENGTH_MAX = 2 * 1024 * 1024

interface Waiting {
  readonly sent: NewSignal
  readonly resolve: (answer: SignalResult) => void
  readonly reject: (error: unknown) => void
}

interface SignalsDeps {
  readonly store: KeptStore & Pick<JobStore, 'parts'>
  nextId(): string
}

/** Sends signals. Those of concurrent calls go together, in one commit: while one call of the store is under way, the next ones gather. */
export class Signals {
  readonly #deps: SignalsDeps
  #waiting: Waiting[] = []
  #isBusy = false

  constructor(deps: SignalsDeps) {
    this.#deps = deps
  }

  async send({ id, name, value, options = {} }: Call): Promise<SignalSent> {
    checkKeys('signal', options, ['key', 'by'])
    const { key, ...by } = options
    const sent = {
      id: checkId('id', id),
      name: checkKeptName('the name of a signal', name),
      value: encodeKept(`the value of the signal "${name}"`, value) ?? 'null',
      key: key === undefined ? this.#deps.nextId() : checkKey(key, 'key'),
      by: resolveBy('signal', by),
    }
    return readAnswer(sent, await this.#answerTo(sent))
  }

  #answerTo(sent: NewSignal): Promise<SignalResult> {
    const { store } = this.#deps
    // Where a part of the store can be away, it holds up no signal to another.
    if (store.parts !== undefined) return store.signal([sent]).then(([answer]) => answer!)
    return new Promise((resolve, reject) => {
      this.#waiting.push({ sent, resolve, reject })
      if (!this.#isBusy) void this.#sendAll()
    })
  }

  async #sendAll(): Promise<void> {
    this.#isBusy = true
    // What is called in the same turn goes together.
    await Promise.resolve()
    while (this.#waiting.length > 0) await this.#sendSome(this.#take())
    this.#isBusy = false
  }

  #take(): Waiting[] {
    let [count, length] = [0, 0]
    while (count < this.#waiting.length && count < TOGETHER_MAX && length < TOGETHER_LENGTH_MAX) {
      length += this.#waiting[count++]!.sent.value.length
    }
    return this.#waiting.splice(0, count)
  }

  /** Never raises: the answer goes to those who wait. */
  async #sendSome(some: readonly Waiting[]): Promise<void> {
    try {
      const answers = await this.#deps.store.signal(some.map(({ sent }) => sent))
      for (const [index, { resolve }] of some.entries()) resolve(answers[index]!)
    } catch (error) {
      const isRefused = !(isHoldfastError(error) && error.retryable)
      // What the store refuses must not hold up the others.
      if (isRefused && some.length > 1) for (const one of some) await this.#sendSome([one])
      else for (const { reject } of some) reject(error)
    }
  }
}

function readAnswer({ id, name }: NewSignal, answer: SignalResult): SignalSent {
  switch (answer.result) {
    case 'signalled':
      return { id, woken: answer.woken }
    case 'missing':
      throw new HoldfastError('job_not_found', `there is no job ${id} to signal: it never existed, or was pruned`, {
        details: { id },
      })
    case 'refused':
      throw new HoldfastError(
        'wrong_state',
        `job ${id} cannot be signalled because it is ${answer.state}: a job that has not finished can be`,
        { details: { id, state: answer.state } },
      )
    case 'full':
      throw new HoldfastError(
        'kept_full',
        `the signal "${name}" was not sent: job ${id} has ${SIGNALS_MAX} signals, the most that are kept`,
        { details: { id, signals: SIGNALS_MAX } },
      )
  }
}
