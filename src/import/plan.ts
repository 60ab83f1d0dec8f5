// Makes our job of an old one, or says why there can be none. ◄── run.ts

import { checkKey, checkName, TAG_LENGTH_MAX, TAGS_MAX } from '../core/check.js'
import { GROUP_LENGTH_MAX } from '../core/flow/job-flow.js'
import type { NewJob } from '../core/job.js'
import { isDeeperThan, JSON_DEPTH_MAX, PAYLOAD_BYTES_MAX, safeText } from '../core/json.js'
import { ATTEMPTS_MAX, type JobLimits } from '../core/limits.js'
import type { OldJob, Planned } from './contract.js'
import { importedId } from './ids.js'

/** How names and failed jobs are brought over. */
export interface PlanTerms {
  readonly source: string
  /** Types by their old names. */
  readonly types: ReadonlyMap<string, string>
  /** Queues by their old names. */
  readonly queues: ReadonlyMap<string, string>
  readonly failed: 'dead' | 'requeue' | 'skip'
  /** Puts into an id which part of the store has it, where a store has parts. */
  readonly mark: (id: string, queue: string) => string
}

const PRIORITY_MIN = -32_768
const PRIORITY_MAX = 32_767
const ATTEMPT_MAX = 32_767
/** The end of the times a store keeps. */
const RUN_AT_MS_MAX = Date.UTC(9999, 11, 31)
// A job that is dead from the start is written as one that waits for this long, and buried with the next call. If that call never comes, it
// is still no job that a worker runs.
const BEFORE_BURIAL_MS = 100 * 365 * 86_400_000

/** What becomes of an old job: ours, with what was lost on the way, or the reason why it stays where it is. */
export type Plan = { readonly planned: Planned; readonly lacks: readonly string[] } | { readonly skip: string }

/** Pure: the same job and time give the same plan. */
export function planJob(old: OldJob, terms: PlanTerms, takenAtMs: number, nowMs: number): Plan {
  const type = terms.types.get(old.type) ?? old.type
  const queue = terms.queues.get(old.queue) ?? old.queue
  const skip = problemOf(old, type, queue)
  if (skip !== null) return { skip }
  const lacks = [...old.lacks]
  const isDead = old.kind === 'failed' && terms.failed === 'dead'
  const isFresh = old.kind === 'failed'
  const priority = within(old.priority, PRIORITY_MIN, PRIORITY_MAX)
  if (priority !== old.priority) lacks.push(`a priority beyond ${PRIORITY_MAX}: cut`)
  const job: NewJob = {
    id: terms.mark(importedId(terms.source, `${old.queue}\n${old.key}`, takenAtMs), queue),
    queue,
    type,
    payload: old.payload,
    version: 1,
    priority,
    when: isDead ? { runAtMs: takenAtMs + BEFORE_BURIAL_MS } : whenOf(old, nowMs),
    limits: limitsOf(old, isFresh),
    idempotencyKey: keyOf(old, lacks),
    after: [],
    onParentDead: 'cancel',
    tags: tagsOf(old, terms.source, lacks),
    trace: old.trace,
    ...flowOf(old, lacks),
  }
  const death = isDead
    ? {
        attempt: within(old.attemptsMade, 1, ATTEMPT_MAX),
        error: old.error ?? { name: 'Error', message: 'it failed, and its old queue kept no error' },
      }
    : null
  return { planned: { old, job, death }, lacks }
}

function problemOf(old: OldJob, type: string, queue: string): string | null {
  const name = nameProblem('type', old.type, type) ?? nameProblem('queue', old.queue, queue)
  if (name !== null) return name
  const bytes = Buffer.byteLength(old.payload)
  if (bytes > PAYLOAD_BYTES_MAX) return `its payload is larger than ${PAYLOAD_BYTES_MAX} bytes`
  if (isDeeperThan(JSON_DEPTH_MAX, old.payload)) return `its payload is nested deeper than ${JSON_DEPTH_MAX} levels`
  if (!isJson(old.payload)) return 'its payload is no JSON'
  if (old.runAtMs !== null && !(old.runAtMs >= 0 && old.runAtMs <= RUN_AT_MS_MAX))
    return 'its time lies beyond the year 9999'
  return null
}

function nameProblem(what: 'type' | 'queue', old: string, name: string): string | null {
  try {
    checkName(what, name)
    return null
  } catch {
    const option = what === 'type' ? '--map' : '--map-queue'
    return `${JSON.stringify(name.slice(0, 60))} cannot name a ${what}: give ${option} '${old.slice(0, 60)}=…'`
  }
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

function whenOf({ kind, runAtMs }: OldJob, nowMs: number): NewJob['when'] {
  return kind === 'failed' || runAtMs === null || runAtMs <= nowMs ? null : { runAtMs }
}

/** A failed job that is requeued has all of its attempts again, like one that is requeued here. */
function limitsOf({ attemptsMade, maxAttempts, retry, timeoutMs }: OldJob, isFresh: boolean): JobLimits {
  const left = isFresh ? maxAttempts : maxAttempts - attemptsMade
  return {
    maxAttempts: within(left, 1, ATTEMPTS_MAX),
    ...(retry === null ? {} : { retry }),
    ...(timeoutMs === null ? {} : { timeoutMs }),
  }
}

function keyOf({ idempotencyKey }: OldJob, lacks: string[]): NewJob['idempotencyKey'] {
  if (idempotencyKey === null) return null
  try {
    return { key: checkKey(idempotencyKey), ttlMs: null }
  } catch {
    lacks.push('a key that is longer than 200 characters or has control characters: left out')
    return null
  }
}

function tagsOf({ id, tags }: OldJob, source: string, lacks: string[]): readonly string[] {
  const system = source.slice(0, source.indexOf(':'))
  const wanted = [`${system}:${id}`, ...tags]
  const made = [...new Set(wanted.map(tagText))].slice(0, TAGS_MAX)
  if (wanted.length > TAGS_MAX) lacks.push(`more than ${TAGS_MAX} tags: cut`)
  return made
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: no tag may have them
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/g

function tagText(text: string): string {
  return safeText(text, TAG_LENGTH_MAX * 4)
    .replace(CONTROL, '_')
    .slice(0, TAG_LENGTH_MAX)
}

function flowOf({ group }: OldJob, lacks: string[]): Pick<NewJob, 'flow'> {
  if (group === null) return {}
  try {
    if (group.length > GROUP_LENGTH_MAX) throw new RangeError('too long')
    return { flow: { group: checkKey(group), limits: [], cost: 1 } }
  } catch {
    lacks.push(`a group whose name is longer than ${GROUP_LENGTH_MAX} characters or has control characters: left out`)
    return {}
  }
}

function within(value: number, least: number, most: number): number {
  if (!Number.isFinite(value)) return value > 0 ? most : least
  return Math.max(least, Math.min(most, Math.trunc(value)))
}
