// What a list of jobs is narrowed to, as a value. filter.ts reads it from text.

import type { DeadReason, JobState } from './states.js'

/** A value at a path of a payload. */
export type JsonScalar = string | number | boolean | null

/** One condition on the payload: what is found by going down the path, through keys of objects and indices of arrays. */
export interface PayloadMatch {
  readonly path: readonly string[]
  /** It is one of these; null asks only that something is there. */
  readonly anyOf: readonly JsonScalar[] | null
}

export type Comparison = '=' | '>' | '>=' | '<' | '<='

export interface NumberMatch {
  readonly op: Comparison
  readonly value: number
}

/** A comparison with a moment, or with an age by the store's clock at the call: `<` an age is younger than it. */
export type TimeMatch =
  | { readonly op: Exclude<Comparison, '='>; readonly atMs: number }
  | { readonly op: Exclude<Comparison, '='>; readonly ageMs: number }

/**
 * What a list is narrowed to; `parseFilter` reads it from text. Fields that are absent match everything, all that are
 * present must match. A list of values matches any of them; an empty one matches nothing in a store, and has no text, so
 * callers of the library are refused with `invalid_filter`. Lists of lists are terms that must match each. In queues, types and workers `*` stands for any run of characters.
 */
export interface JobFilter {
  readonly states?: readonly JobState[]
  readonly notStates?: readonly JobState[]
  readonly queues?: readonly string[]
  readonly notQueues?: readonly string[]
  readonly types?: readonly string[]
  readonly notTypes?: readonly string[]
  /** For each term, the job carries one of its tags. */
  readonly tags?: readonly (readonly string[])[]
  /** The job carries none of these. */
  readonly notTags?: readonly string[]
  readonly reasons?: readonly DeadReason[]
  /** The worker that runs it, or ran it last. */
  readonly workers?: readonly string[]
  readonly ids?: readonly string[]
  /** Groups of flow control, each by its whole name. */
  readonly groups?: readonly string[]
  /** Idempotency keys. */
  readonly keys?: readonly string[]
  /** Names of the schedules that made it. */
  readonly schedules?: readonly string[]
  /** Fingerprints of the errors of dead jobs. */
  readonly fingerprints?: readonly string[]
  /** For each term, the name or the message of its error holds one of the texts; A to Z count as a to z. */
  readonly errors?: readonly (readonly string[])[]
  readonly payload?: readonly PayloadMatch[]
  readonly attempt?: readonly (readonly NumberMatch[])[]
  readonly priority?: readonly (readonly NumberMatch[])[]
  readonly created?: readonly TimeMatch[]
  readonly finished?: readonly TimeMatch[]
}
