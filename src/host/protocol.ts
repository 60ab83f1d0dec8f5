// What a host and its children send each other. Payloads and results travel as JSON text: only the child reads a payload, and nobody reads a result.

import type { Outcome } from '../core/decide.js'
import type { DefinitionFlow, JobDefinition, RateLimitScope } from '../core/definition.js'
import { type ErrorCode, HoldfastError, isHoldfastError } from '../core/errors.js'
import { encodeError, type StoredError } from '../core/json.js'
import type { KeptEntry, ParkedFor, ParkedOn } from '../core/kept/kept.js'
import type { JobOrigin } from '../core/origin.js'
import type { JobState } from '../core/states.js'

/** What a child is started with. */
export interface ChildSetup {
  /** The module with the handlers, as a file: URL. */
  readonly module: string
  /** The process whose death ends the child, and how long it may stand still; null in a thread, which ends with its process. */
  readonly parent: { readonly pid: number; readonly pauseMsMax: number } | null
  /** The child ends itself when it holds more; null for no limit. */
  readonly killBytes: number | null
}

/** What a child ends itself by when it holds too much memory. Nothing else sends it, and it leaves no core file. */
export const MEMORY_SIGNAL = 'SIGALRM'

/** A job on its way to a child. */
export interface SentJob {
  /** Counts up; tells calls apart. */
  readonly seq: number
  readonly id: string
  readonly type: string
  readonly queue: string
  readonly payload: string
  readonly version: number
  readonly attempt: number
  readonly maxAttempts: number
  readonly fence: number
  readonly createdAtMs: number
  readonly tags: readonly string[]
  readonly trace: string | null
  readonly origin?: JobOrigin | undefined
  readonly group: string | null
}

export type ToChild =
  | { readonly kind: 'jobs'; readonly jobs: readonly SentJob[] }
  | { readonly kind: 'abort'; readonly seq: number; readonly code: ErrorCode; readonly message: string }
  /** A statement to send through the transaction that this call was given. */
  | {
      readonly kind: 'query'
      readonly query: number
      readonly ask: number
      readonly text: string
      readonly values: unknown[]
    }
  | { readonly kind: 'told'; readonly ask: number; readonly value: unknown; readonly error: SentError | null }

export type FromChild =
  /** `hasMiddleware` where its module exports `middleware`, be it an empty list. */
  | { readonly kind: 'ready'; readonly types: readonly string[]; readonly hasMiddleware: boolean }
  /** It cannot go on: its module does not load, or an error was caught by nobody and belongs to no job. It exits after this. */
  | { readonly kind: 'failed'; readonly error: SentError }
  /** Every job up to this one has been read, and its handler is called now. */
  | { readonly kind: 'began'; readonly seq: number }
  | { readonly kind: 'ended'; readonly ends: readonly SentEnd[] }
  | { readonly kind: 'notes'; readonly seq: number; readonly progress: string | null; readonly logs: readonly string[] }
  /** The handler of this job asks for something. */
  | {
      readonly kind: 'ask'
      readonly ask: number
      readonly seq: number
      readonly what: Ask
      readonly tx: SentTx | null
    }
  | {
      readonly kind: 'answer'
      readonly query: number
      readonly rows: unknown[] | null
      readonly error: SentError | null
    }
  /** Sent every second: the child's event loop turns. */
  | { readonly kind: 'alive'; readonly rssBytes: number }

/** What a handler in a child asks its worker for. All of it is done under the lease of its job, or on the worker's connection. */
export type Ask =
  | { readonly kind: 'complete'; readonly result: string | null }
  | { readonly kind: 'recall' | 'lastProgress' }
  | { readonly kind: 'keep'; readonly entry: KeptEntry }
  | { readonly kind: 'write'; readonly offset: number; readonly text: string }
  | { readonly kind: 'endings' | 'cancelChildren'; readonly ids: readonly string[] }
  | { readonly kind: 'exists'; readonly id: string }
  | { readonly kind: 'enqueue'; readonly entry: SentEntry }
  | { readonly kind: 'enqueueMany'; readonly entries: readonly SentEntry[] }
  | { readonly kind: 'update'; readonly id: string; readonly changes: SentChanges; readonly options: object }
  | { readonly kind: 'wait'; readonly id: string; readonly options: object }
  | { readonly kind: 'call'; readonly method: (typeof FORWARDED)[number]; readonly args: readonly unknown[] }

/** Calls of the connection that a handler in a child can make beside those above: their arguments and answers are plain values. */
export const FORWARDED = [
  'get',
  'list',
  'count',
  'explain',
  'signal',
  'doubtful',
  'cancel',
  'requeue',
  'discard',
  'runAgain',
  'pause',
  'resume',
  'queues',
  'stats',
  'workers',
  'wake',
] as const

/** What a child knows of a transaction that stays with it. */
export interface SentTx {
  readonly isPool: boolean
  readonly status: string | null
}

/** A definition without its code, or a type. Its group and cost are those of the payload that it comes with. */
export type SentTarget =
  | string
  | (Pick<JobDefinition, 'type' | 'queue' | 'priority' | 'limits' | 'tags' | 'version'> & {
      readonly flow: DefinitionFlow | null
    })

/** A job to be enqueued. The payload is JSON text that fits its schema. */
export interface SentEntry {
  readonly target: SentTarget
  readonly payload: string
  readonly options: object
}

/** Changes of a job, the payload as JSON text. */
export interface SentChanges {
  readonly job?: Exclude<SentTarget, string> | null
  readonly payload?: string
}

/** The answer to an enqueue, as data. */
export interface SentHandle {
  readonly id: string
  readonly created: boolean
  readonly state: JobState
  readonly replaced?: true
}

/** How a handler ended. `outcome` is null when it returned. */
export interface SentEnd {
  readonly seq: number
  readonly result: string | null
  readonly outcome: Outcome | null
  readonly error: StoredError | null
  readonly isControl: boolean
  /** Of a job that was told to wait: what its handler said about others. */
  readonly scope?: RateLimitScope | null
  readonly isOverload?: boolean
  /** What the handler said that the attempt cost. */
  readonly spent?: number | null
  /** What a job waits for that left its slot. */
  readonly parked?: SentParked | null
}

/** What a job waits for, and how long at most. */
export interface SentParked {
  readonly until: { readonly wait: ParkedFor } | { readonly children: ParkedOn }
  readonly delayMs: number | null
}

/** An error between processes. */
export interface SentError {
  readonly name: string
  readonly message: string
  readonly code: string | null
  readonly isRetryable: boolean
  readonly details: Readonly<Record<string, unknown>>
}

/** Never raises and never grows without end, whatever was thrown. */
export function sendError(error: unknown): SentError {
  const { name, message, code = null } = encodeError(error)
  const isOurs = isHoldfastError(error)
  return { name, message, code, isRetryable: isOurs && error.retryable, details: isOurs ? error.details : {} }
}

/** The error as it was, as far as callers look at it: ours with its code, others with their name and code. */
export function readError({ name, message, code, isRetryable, details }: SentError): Error {
  if (name === 'HoldfastError') {
    return new HoldfastError(code as ErrorCode, message, { retryable: isRetryable, details })
  }
  return Object.assign(new Error(message), { name, ...(code === null ? {} : { code }) })
}

// Handlers can send messages through the same channel, such as process.send('ready') for a process manager. Only those in this envelope are ours.
const ENVELOPE = 'holdfast'

/** A message of a child as it travels. */
export function enclosed(message: FromChild): readonly unknown[] {
  return [ENVELOPE, message]
}

/** The message of a child; null when it was sent by something else in it. */
export function opened(message: unknown): FromChild | null {
  return Array.isArray(message) && message[0] === ENVELOPE ? (message[1] as FromChild) : null
}
