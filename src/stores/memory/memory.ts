// Everything the memory store knows: jobs by id, and the places where jobs wait to be found.

import type { AdaptiveState } from '../../core/flow/adaptive.js'
import type { Breaker, Outcomes } from '../../core/flow/breaker.js'
import type { GroupOverride, LimitSettings } from '../../core/flow/settings.js'
import type { BreakerView, LimitOrigin } from '../../core/flow/views.js'
import type { Lease, NewJob } from '../../core/job.js'
import type { StoredError } from '../../core/json.js'
import type { Kept, KeptSignal, OutputChunk, ParkedFor, ParkedOn } from '../../core/kept/kept.js'
import type { ApiKey, AuditEntry, BulkView, Depth, QueueTally } from '../../core/operating.js'
import type { Schedule } from '../../core/schedule.js'
import type { DeadReason, JobState } from '../../core/states.js'
import type { AttemptView, QueueSettings, WorkerView } from '../../core/views.js'
import { compareText, type Ordered, ordered } from './ordered.js'

/** Among ready jobs of one priority the front lane goes first: jobs that waited for a time, ticks, and released jobs. Then come the newest of
 *  those that were enqueued to go first. */
export type Lane = 0 | 1 | 2
export const FRONT: Lane = 0
export const LIFO: Lane = 1
export const NORMAL: Lane = 2

/** A claim that holds. */
interface HeldLease {
  readonly worker: string
  readonly claimedAtMs: number
  leasedUntilMs: number
  begun: boolean
  cancelRequested: boolean
}

/** How a finished job came to its end. */
export interface JobEnding {
  readonly finishedAtMs: number
  /** Of its last run; null for a job that was stopped while it waited. */
  readonly startedAtMs: number | null
  readonly worker: string | null
  readonly result: string | null
  readonly reason: DeadReason | null
  readonly error: StoredError | null
}

/** A job with everything that is known about it. */
export interface Job {
  facts: NewJob
  readonly createdAtMs: number
  readonly schedule: { readonly name: string; readonly tickMs: number } | null
  state: JobState
  /** Set while it is scheduled or retrying, and while it is blocked when it was given a time. */
  runAtMs: number | null
  lane: Lane
  position: number
  /** Its place in an ordered group: that of its enqueue, whatever becomes of it. */
  order: number
  readySinceMs: number
  attempt: number
  crashes: number
  fence: number
  /** Present exactly while it is running. */
  lease: HeldLease | null
  /** Present exactly while it is finished. */
  ending: JobEnding | null
  readonly attempts: AttemptView[]
  readonly logs: { readonly atMs: number; readonly text: string }[]
  progress: string | null
  /** Steps, effects and waits by kind and name. */
  readonly kept: Map<string, Kept & { readonly fence: number }>
  /** The children that its handler waits for; null while it waits for none. */
  waitsOn: ParkedOn | null
  /** By offset. */
  readonly output: OutputChunk[]
  /** Oldest first. */
  readonly signals: KeptSignal[]
  /** What it waits for, or waited for last, and under which claim it began to. */
  wait: (ParkedFor & { readonly fence: number; readonly sinceMs: number; readonly untilMs: number }) | null
  readonly requeues: { readonly number: number; readonly at: Date; readonly by: string }[]
}

/** Who holds an idempotency key; null is until its job is finished. */
export interface HeldKey {
  readonly jobId: string
  readonly expiresAtMs: number | null
  /** The job that takes new payloads while the holder runs, and gets the key when that ends. */
  readonly next: string | null
}

export interface Queue {
  paused: boolean
  settings: QueueSettings
  createdAtMs: number
  createdBy: string | null
}

export interface KeptSchedule {
  schedule: Schedule
  paused: boolean
  nextAtMs: number | null
  lastAtMs: number | null
  lastJobId: string | null
  /** Who made it, where the number of schedules of one maker is bounded. */
  readonly maker: string | null
}

/** How many jobs were in each state at one moment. */
export type KeptSample = Depth & { readonly oldestAgeS: number }

export interface KeptBulk extends BulkView {
  /** It has been through the jobs with this id and larger ones. */
  readonly cursor: string | null
}

/** The jobs of one queue with one set of limits. */
export interface Track {
  readonly limits: readonly string[]
  /** Ready jobs by group, each list in the order of claiming. Jobs without a group are under ''. */
  readonly held: Map<string, Ordered<Job>>
  /** Groups that may have a job to give, the next one first, with what is left of a turn that a claim's end cut short. */
  readonly turns: Map<string, number | null>
  /** Groups that wait for a time. */
  readonly naps: Map<string, number>
}

/** A limit, with the state of its bucket (rate.ts). Nothing starts before `notBeforeMs`. */
export interface KeptLimit {
  settings: LimitSettings
  origin: LimitOrigin
  emptyAtMs: number
  notBeforeMs: number
  breaker: Breaker
  /** Since the breaker came to its position, by second. */
  outcomes: Map<number, Outcomes>
  /** How the breaker moved, newest first. */
  history: BreakerView['history']
  adaptive: AdaptiveState | null
}

/** What is known of a group beside its jobs. Few groups have such an entry. */
export interface KeptGroup {
  override: GroupOverride | null
  paused: boolean
  stoppedBy: string | null
  emptyAtMs: number
  notBeforeMs: number
}

export interface Memory {
  readonly jobs: Map<string, Job>
  /** Tracks of each queue that has jobs under flow control. */
  readonly tracks: Map<string, Track[]>
  /** How often each of those queues was claimed from: the tracks begin in turn. */
  readonly flowClaims: Map<string, number>
  readonly limits: Map<string, KeptLimit>
  /** By queue and name. */
  readonly groups: Map<string, Map<string, KeptGroup>>
  /** Ready plain jobs of each queue in the order of claiming. */
  readonly ready: Map<string, Ordered<Job>>
  /** Scheduled and retrying jobs, soonest first. */
  readonly timed: Ordered<Job>
  /** Running jobs, the lease that ends soonest first. */
  readonly running: Ordered<Job>
  /** Blocked jobs by each job they come after. */
  readonly blocked: Map<string, Set<Job>>
  readonly keys: Map<string, HeldKey>
  readonly queues: Map<string, Queue>
  readonly schedules: Map<string, KeptSchedule>
  /** Times of the recorded ticks of each schedule. They outlive the schedule, so that one made anew under the same name
   *  does not repeat a tick. */
  readonly ticks: Map<string, Set<number>>
  readonly workers: Map<string, WorkerView>
  /** Oldest first. */
  readonly audit: AuditEntry[]
  /** The number of the newest line there ever was. */
  auditLine: number
  /** For each ten seconds, what happened in each queue. */
  readonly tallies: Map<number, Map<string, QueueTally>>
  /** For each ten seconds with a sample, how many jobs of each queue were in each state. */
  readonly samples: Map<number, Map<string, KeptSample>>
  readonly bulks: Map<string, KeptBulk>
  readonly apiKeys: Map<string, ApiKey & { readonly hash: string }>
  lastPosition: number
  /** What the current call reports to listeners: queues with new ready jobs, running jobs somebody asked to cancel. */
  readonly woken: Set<string>
  readonly asked: Set<string>
}

/** A memory that knows nothing yet. */
export function newMemory(): Memory {
  return {
    jobs: new Map(),
    tracks: new Map(),
    flowClaims: new Map(),
    limits: new Map(),
    groups: new Map(),
    ready: new Map(),
    timed: ordered((one, other) => one.runAtMs! - other.runAtMs! || compareText(one.facts.id, other.facts.id)),
    running: ordered(
      (one, other) =>
        one.lease!.leasedUntilMs - other.lease!.leasedUntilMs || compareText(one.facts.id, other.facts.id),
    ),
    blocked: new Map(),
    keys: new Map(),
    queues: new Map(),
    schedules: new Map(),
    ticks: new Map(),
    workers: new Map(),
    audit: [],
    auditLine: 0,
    tallies: new Map(),
    samples: new Map(),
    bulks: new Map(),
    apiKeys: new Map(),
    lastPosition: 0,
    woken: new Set(),
    asked: new Set(),
  }
}

/** The jobs that a blocked one waits for. */
export function blockersOf({ facts, waitsOn }: Job): readonly string[] {
  return waitsOn?.ids ?? facts.after
}

/** The queue of that name, known from now on. */
export function openQueue(memory: Memory, name: string, nowMs: number, createdBy: string | null = null): Queue {
  return entryOf(memory.queues, name, () => ({
    ...{ paused: false, settings: { limits: {} } },
    ...{ createdAtMs: nowMs, createdBy },
  }))
}

/** The entry of a map, made when there is none. */
export function entryOf<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  const known = map.get(key)
  if (known !== undefined) return known
  const made = make()
  map.set(key, made)
  return made
}

/** The job of a lease that holds, or null. */
export function heldJob(memory: Memory, lease: Lease): Job | null {
  const job = memory.jobs.get(lease.id)
  return job !== undefined && job.lease !== null && job.fence === lease.fence ? job : null
}
