// Signals to jobs. ◄── operator-calls.ts

import { checkId, checkKey, checkKeys } from '../core/check.js'
import { HoldfastError } from '../core/errors.js'
import type { KeptStore } from '../core/kept/contract.js'
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

export async function signal(
  store: KeptStore,
  nextId: () => string,
  { id, name, value, options = {} }: Call,
): Promise<SignalSent> {
  checkKeys('signal', options, ['key', 'by'])
  const { key, ...by } = options
  const sent = {
    id: checkId('id', id),
    name: checkKeptName('the name of a signal', name),
    value: encodeKept(`the value of the signal "${name}"`, value) ?? 'null',
    key: key === undefined ? nextId() : checkKey(key, 'key'),
    by: resolveBy('signal', by),
  }
  const answer = await store.signal(sent)
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
