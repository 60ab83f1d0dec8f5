// What becomes of a row, by the answer of the store. Nothing that committed is given up while it may still be taken. ◄── dispatch.ts

import { type HoldfastError, isHoldfastError } from '../../core/errors.js'
import { enqueueRefused } from '../../core/flow/refusals.js'
import type { Enqueued, NewJob } from '../../core/job.js'

/** A row that is being sent. */
export interface SentRow {
  readonly seq: string
  readonly job: NewJob
  /** How often it was put off. */
  readonly tries: number
  /** The store took it before, and may have lost it. */
  readonly isRepeat: boolean
}

/** What the outbox has of a job that another comes after. */
export interface ParentRow {
  readonly outcome: 'waiting' | 'sent' | 'replaced' | 'deduplicated' | 'refused' | 'cancelled'
  readonly holder: string | null
}

/** What becomes of a row; `outcome` is null while it waits for another try. */
export interface Fate {
  readonly outcome: 'sent' | 'replaced' | 'deduplicated' | 'refused' | null
  readonly holder: string | null
  readonly why: string | null
  readonly waitMs: number
}

/** It waits for a job that another process is sending. */
export const WAITING: Fate = { outcome: null, holder: null, why: null, waitMs: 100 }

const WAIT_MS = 1_000
const WAIT_MS_MAX = 60_000
/** How often a job is tried whose parent was sent, and is not there: about half a minute. */
const ORPHAN_TRIES_MAX = 30

function done(outcome: NonNullable<Fate['outcome']>, holder: string | null = null, why: string | null = null): Fate {
  return { outcome, holder, why, waitMs: 0 }
}

function waits(why: string, waitMs: number): Fate {
  return { outcome: null, holder: null, why, waitMs }
}

/** Twice as long each time. */
function longer({ tries }: SentRow): number {
  return Math.min(WAIT_MS_MAX, WAIT_MS * 2 ** Math.min(tries, 10))
}

export function fateOfAnswer(row: SentRow, answer: Enqueued, parents: ReadonlyMap<string, ParentRow>): Fate {
  if ('unknownParent' in answer) return fateOfOrphan(row, answer.unknownParent, parents.get(answer.unknownParent))
  // A setting of an operator can change that, and jobs that leave make room.
  if ('refused' in answer) return waits(enqueueRefused(row.job.id, answer.refused).message, longer(row))
  if (answer.created) return done('sent')
  if (answer.replaced) return done('replaced', answer.id)
  // It had been created once. Its key is free again when the one that has it now is finished.
  if (row.isRepeat) return waits(`job ${answer.id} has its idempotency key`, WAIT_MS)
  return done('deduplicated', answer.id)
}

function fateOfOrphan(row: SentRow, parent: string, known: ParentRow | undefined): Fate {
  const mayCome = known !== undefined && known.outcome !== 'refused' && known.outcome !== 'cancelled'
  if (mayCome && row.tries < ORPHAN_TRIES_MAX)
    return waits(`it comes after job ${parent}, which is not there yet`, WAIT_MS)
  const became = known === undefined || mayCome ? 'does not exist' : `was ${known.outcome}`
  return done('refused', null, `it comes after job ${parent}, which ${became}`)
}

/** Whether a call failed because of something that one of its jobs has. */
export function isAboutOneJob({ code, retryable }: HoldfastError): boolean {
  return !retryable && !ABOUT_THE_STORE.includes(code)
}

const ABOUT_THE_STORE: readonly string[] = [
  'store_unavailable',
  'store_refused',
  'store_read_only',
  'store_stale',
  'access_denied',
  'schema_too_new',
  'schema_missing',
  'closed',
]

/** Codes of errors that pass when somebody changes a setting or removes something. */
const MAY_PASS: readonly string[] = ['too_many_queues', 'too_many_tracks', 'limit_unknown', 'queue_full', 'group_full']

/** What becomes of a row that was sent alone and failed. Raises what is about the store. */
export function fateOfError(row: SentRow, error: unknown): Fate {
  if (!isHoldfastError(error) || !isAboutOneJob(error)) throw error
  if (MAY_PASS.includes(error.code)) return waits(error.message, longer(row))
  return done('refused', null, error.message)
}
