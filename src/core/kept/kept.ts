// What a job keeps while it runs, beside its payload and its result: steps that have finished, effects, waits, signals and output. All of it
// outlives an attempt, so that the next one goes on where the last one stopped.

import { checkText } from '../check.js'
import { HoldfastError } from '../errors.js'
import { isDeeperThan, JSON_DEPTH_MAX } from '../json.js'

/** The longest name of a step, an effect or a signal, in characters. */
const KEPT_NAME_LENGTH_MAX = 200
/** The most steps, effects and waits of one job, and the most bytes of their values. An attempt reads all of them when it needs the first. */
export const KEPT_MAX = 5_000
export const KEPT_BYTES_MAX: number = 16 * 1024 * 1024
/** The largest value of one step, effect or signal, in bytes of JSON. */
const KEPT_VALUE_BYTES_MAX: number = 256 * 1024
/** The most signals of one job. */
export const SIGNALS_MAX = 1_000

/** The longest chunk of output, and the most output of one job, in characters as JavaScript counts them. */
export const CHUNK_LENGTH_MAX: number = 64 * 1024
export const OUTPUT_LENGTH_MAX: number = 8 * 1024 * 1024

/** A step of `ctx.step`, an effect of `ctx.once`, how a wait of `ctx.waitFor` ended, or a child that the handler enqueued. */
export type KeptKind = 'step' | 'effect' | 'wait' | 'child'

/** One entry on its way to the store. */
export interface KeptEntry {
  readonly kind: KeptKind
  readonly name: string
  /** JSON text; null for a step that returned nothing, and for an effect that has not ended. */
  readonly value: string | null
  /** How often it was begun; more than once only of an effect. */
  readonly begun: number
  readonly isEnded: boolean
  readonly tookMs: number
}

/** One entry as a store keeps it. */
export interface Kept extends Omit<KeptEntry, 'tookMs'> {
  /** The attempt that wrote it last. */
  readonly attempt: number
  readonly beganAtMs: number
  readonly endedAtMs: number | null
}

/** A signal that was sent to a job. */
export interface KeptSignal {
  /** Two signals of one job with the same key are one. */
  readonly key: string
  readonly name: string
  /** JSON text. */
  readonly value: string
  readonly atMs: number
}

/** What a job waits for, or waited for last. */
interface KeptWait {
  readonly name: string
  /** 1 for the first wait of this name. */
  readonly turn: number
  readonly untilMs: number
}

/** What a job that leaves its slot waits for. */
export interface ParkedFor extends Omit<KeptWait, 'untilMs'> {
  /** How many signals of this name it knew of: the next one wakes it. */
  readonly seen: number
}

/** The most children that a job waits for at a time. */
export const CHILDREN_MAX = 1_000

/** The children that a job waits for which leaves its slot. */
export interface ParkedOn {
  readonly ids: readonly string[]
  /** Whether it goes on as soon as one of them is dead or cancelled; otherwise when all have ended. */
  readonly wakesEarly: boolean
}

/** What a job waits for, as shown. */
export interface WaitView {
  readonly name: string
  readonly since: Date
  readonly until: Date
}

/** An effect that its provider may have seen more than once, or of which nobody knows whether it happened. */
export interface DoubtfulEffect {
  /** The job's. */
  readonly id: string
  readonly type: string
  readonly queue: string
  readonly key: string
  /** How often it was begun. */
  readonly begun: number
  readonly beganAt: Date
  /** When its outcome was kept; null when it never was. */
  readonly endedAt: Date | null
}

/** A page of them, by job and key. */
export interface DoubtfulPage {
  readonly effects: readonly DoubtfulEffect[]
  readonly next: { readonly id: string; readonly key: string } | null
}

/** A chunk of a job's output. */
export interface OutputChunk {
  /** Where it begins: how many characters were written before it. */
  readonly offset: number
  /** Where it ends: go on reading from here. */
  readonly next: number
  readonly text: string
  /** The attempt that wrote it. */
  readonly attempt: number
  readonly at: Date
}

/** Output from an offset on. */
export interface OutputPage {
  readonly chunks: readonly OutputChunk[]
  /** True when the job has finished and there is nothing behind these chunks. */
  readonly isOver: boolean
}

/** Everything that a job has kept. */
export interface Recalled {
  readonly entries: readonly Kept[]
  /** Oldest first. */
  readonly signals: readonly KeptSignal[]
  readonly wait: KeptWait | null
  /** Where its output ends. */
  readonly outputEnd: number
}

/** A step, effect or wait as shown, without its value. */
export interface StepView {
  readonly kind: KeptKind
  readonly name: string
  readonly attempt: number
  /** How often it was begun; more than once only of an effect that was cut off. */
  readonly begun: number
  readonly beganAt: Date
  /** Null of an effect whose outcome is not known. */
  readonly endedAt: Date | null
}

/** An entry as shown. */
export function stepViewOf({ kind, name, attempt, begun, beganAtMs, endedAtMs }: Kept): StepView {
  const endedAt = endedAtMs === null ? null : new Date(endedAtMs)
  return { kind, name, attempt, begun, beganAt: new Date(beganAtMs), endedAt }
}

/** Raises `invalid_option` unless `name` can name a step, an effect or a signal. */
export function checkKeptName(what: string, name: unknown): string {
  return checkText(what, name, KEPT_NAME_LENGTH_MAX)
}

/** A value as JSON text, or null for `undefined`; raises `unstorable` for one that is no JSON or too large. */
export function encodeKept(what: string, value: unknown): string | null {
  if (value === undefined) return null
  let text: string | undefined
  try {
    text = JSON.stringify(value)
  } catch (cause) {
    const why = cause instanceof RangeError ? 'it is nested too deeply' : String((cause as Error)?.message ?? cause)
    throw unstorable(what, why.split('\n')[0]!, cause)
  }
  if (text === undefined) throw unstorable(what, `a ${typeof value} is no JSON value`)
  const bytes = Buffer.byteLength(text)
  if (bytes > KEPT_VALUE_BYTES_MAX) {
    throw unstorable(what, `it is ${bytes} bytes of JSON, the limit is ${KEPT_VALUE_BYTES_MAX}`)
  }
  if (isDeeperThan(JSON_DEPTH_MAX, text)) throw unstorable(what, `it is nested deeper than ${JSON_DEPTH_MAX} levels`)
  return text
}

function unstorable(what: string, why: string, cause?: unknown): HoldfastError {
  return new HoldfastError(
    'unstorable',
    `${what} cannot be stored: ${why}; give a JSON value, or a reference to what is kept elsewhere`,
    cause === undefined ? {} : { cause },
  )
}
