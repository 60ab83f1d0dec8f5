// What a host and its children send each other. Payloads and results travel as JSON text: only the child reads a payload, and nobody reads a result.

import type { Outcome } from '../core/decide.js'
import type { RateLimitScope } from '../core/definition.js'
import { type ErrorCode, HoldfastError, isHoldfastError } from '../core/errors.js'
import { encodeError, type StoredError } from '../core/json.js'
import type { JobOrigin } from '../core/origin.js'

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
  /** A statement to send through the transaction that the call of complete() was given. */
  | {
      readonly kind: 'query'
      readonly query: number
      readonly call: number
      readonly text: string
      readonly values: unknown[]
    }
  | { readonly kind: 'completed'; readonly call: number; readonly error: SentError | null }

export type FromChild =
  | { readonly kind: 'ready'; readonly types: readonly string[] }
  /** It cannot go on: its module does not load, or an error was caught by nobody and belongs to no job. It exits after this. */
  | { readonly kind: 'failed'; readonly error: SentError }
  /** Every job up to this one has been read, and its handler is called now. */
  | { readonly kind: 'began'; readonly seq: number }
  | { readonly kind: 'ended'; readonly ends: readonly SentEnd[] }
  | { readonly kind: 'notes'; readonly seq: number; readonly progress: string | null; readonly logs: readonly string[] }
  | {
      readonly kind: 'complete'
      readonly call: number
      readonly seq: number
      readonly result: string | null
      /** What the transaction's client knows of itself. */
      readonly isPool: boolean
      readonly status: string | null
    }
  | {
      readonly kind: 'answer'
      readonly query: number
      readonly rows: unknown[] | null
      readonly error: SentError | null
    }
  /** Sent every second: the child's event loop turns. */
  | { readonly kind: 'alive'; readonly rssBytes: number }

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
}

/** An error between processes. */
export interface SentError {
  readonly name: string
  readonly message: string
  readonly code: string | null
  readonly details: Readonly<Record<string, unknown>>
}

/** Never raises and never grows without end, whatever was thrown. */
export function sendError(error: unknown): SentError {
  const { name, message, code = null } = encodeError(error)
  const details = isHoldfastError(error) ? error.details : {}
  return { name, message, code, details }
}

/** The error as it was, as far as callers look at it: ours with its code, others with their name and code. */
export function readError({ name, message, code, details }: SentError): Error {
  if (name === 'HoldfastError') return new HoldfastError(code as ErrorCode, message, { details })
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
