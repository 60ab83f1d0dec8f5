// Idempotency keys: who holds one, and for how long.

import type { IdempotencyKey } from '../../core/job.js'
import type { HeldKey, Job, Memory } from './memory.js'

interface KeyOwner {
  readonly queue: string
  readonly idempotencyKey: IdempotencyKey | null
}

/** Who keeps a job with this key away, or null. */
export function keyHolder(memory: Memory, owner: KeyOwner, nowMs: number): HeldKey | null {
  if (owner.idempotencyKey === null) return null
  const held = memory.keys.get(nameOf(owner.queue, owner.idempotencyKey.key))
  return held === undefined || hasExpired(held, nowMs) ? null : held
}

/** True for a key whose time is over. */
export function hasExpired(held: HeldKey, nowMs: number): boolean {
  return held.expiresAtMs !== null && nowMs >= held.expiresAtMs
}

/** Gives the job its key, from now. */
export function takeKey(memory: Memory, job: Job, nowMs: number): void {
  const { id, queue, idempotencyKey } = job.facts
  if (idempotencyKey === null) return
  const { key, ttlMs } = idempotencyKey
  const expiresAtMs = ttlMs === null ? null : nowMs + ttlMs
  memory.keys.set(nameOf(queue, key), { jobId: id, expiresAtMs, next: null })
}

/** Makes a job the one that gets the key of a running one. */
export function takeKeyNext(memory: Memory, job: Job): void {
  const name = nameOf(job.facts.queue, job.facts.idempotencyKey!.key)
  memory.keys.set(name, { ...memory.keys.get(name)!, next: job.facts.id })
}

/** Frees the key of a finished job, unless the key lasts for a time or somebody else has taken it since. A successor gets it. */
export function freeKey(memory: Memory, job: Job): void {
  const { id, queue, idempotencyKey } = job.facts
  if (idempotencyKey === null) return
  const name = nameOf(queue, idempotencyKey.key)
  const held = memory.keys.get(name)
  if (held === undefined) return
  if (held.next === id) memory.keys.set(name, { ...held, next: null })
  else if (held.jobId === id && held.expiresAtMs === null) passOn(memory, name, held)
}

/** Frees the key of a job that is deleted, also one that lasts for a time. */
export function releaseKey(memory: Memory, job: Job): void {
  const { id, queue, idempotencyKey } = job.facts
  if (idempotencyKey === null) return
  const name = nameOf(queue, idempotencyKey.key)
  const held = memory.keys.get(name)
  if (held?.jobId === id) passOn(memory, name, held)
}

function passOn(memory: Memory, name: string, { next, expiresAtMs }: HeldKey): void {
  if (next === null) memory.keys.delete(name)
  else memory.keys.set(name, { jobId: next, expiresAtMs, next: null })
}

function nameOf(queue: string, key: string): string {
  return JSON.stringify([queue, key])
}
