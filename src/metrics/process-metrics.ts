// What this process does, counted as it happens.

import { Counter, Histogram, type Registry } from 'prom-client'
import type { HoldfastEvent } from '../core/events.js'
import { gaugesOf } from './gauges.js'
import { CountedJobs } from './job-counts.js'
import type { BoundedNames } from './names.js'

// Of calls to the store: around the 10 ms a claim and the 25 ms an enqueue may take.
const CALL_BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30]
// Of jobs: from those that are done immediately to those that take an hour.
const JOB_BUCKETS = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1_800, 3_600]

export interface ProcessMetricsDeps {
  readonly registry: Registry
  readonly queues: BoundedNames
  readonly types: BoundedNames
  readonly limits: BoundedNames
  /** Parts of the library that a failure of the store was noticed in. */
  readonly activities: BoundedNames
}

type EventOf<Name extends HoldfastEvent['name']> = Extract<HoldfastEvent, { name: Name }>

type Listeners = { readonly [Name in HoldfastEvent['name']]?: (event: EventOf<Name>) => void }

/** The metrics of one process. Give `hear` every event. */
export class ProcessMetrics {
  readonly #deps: ProcessMetricsDeps
  readonly #metrics: ReturnType<typeof makeMetrics>
  readonly #jobs: CountedJobs
  readonly #listeners: Listeners
  /** Queues of the jobs whose handlers run, by id: an end whose start was not heard must not count. */
  readonly #running = new Map<string, string>()
  readonly #queuesSeen = new Set<string>()

  constructor(deps: ProcessMetricsDeps) {
    this.#deps = deps
    this.#metrics = makeMetrics(deps.registry)
    this.#jobs = new CountedJobs(deps)
    this.#listeners = this.#listen()
  }

  readonly hear = (event: HoldfastEvent): void => {
    const listener = this.#listeners[event.name] as ((event: HoldfastEvent) => void) | undefined
    listener?.(event)
  }

  #listen(): Listeners {
    const { promoted, extended, fired, late, broken, failures, blocked, endedChildren, repaired, full } = this.#metrics
    const { timelines, saidAgain, outboxSent, outboxFates } = this.#metrics
    const jobs = this.#jobs
    return {
      'enqueue.answered': (event) => this.#enqueued(event),
      'job.claimed': (event) => this.#claimed(event),
      'job.started': (event) => this.#started(event),
      'job.ended': (event) => this.#ended(event),
      'job.settled': (event) => this.#settled(event),
      'job.rescued': (event) => this.#rescued(event),
      'job.stuck': (event) => void jobs.of(event).stuck++,
      'job.promoted': ({ count }) => promoted.inc(count),
      'lease.extended': ({ count }) => extended.inc(count),
      'lease.lost': (event) => void jobs.of(event).lost++,
      'schedule.fired': ({ jobId }) => fired.inc(jobId === null ? 0 : 1),
      'schedule.late': ({ count }) => late.inc(count),
      'schedule.broken': () => broken.inc(),
      'store.failed': ({ during }) => failures.inc({ during: this.#deps.activities.of(during) }),
      'timeline.changed': () => timelines.inc(),
      'store.failed_over': () => timelines.inc(),
      'outbox.sent': ({ count, repeated }) => {
        outboxSent.inc({ again: 'no' }, count - repeated)
        outboxSent.inc({ again: 'yes' }, repeated)
      },
      'outbox.deduplicated': () => outboxFates.inc({ outcome: 'deduplicated' }),
      'outbox.refused': () => outboxFates.inc({ outcome: 'refused' }),
      'outbox.completion_lost': () => outboxFates.inc({ outcome: 'completion_lost' }),
      'failover.said': ({ jobs: enqueued, claims, settlements, operations }) => {
        saidAgain.inc({ what: 'job' }, enqueued)
        saidAgain.inc({ what: 'claim' }, claims)
        saidAgain.inc({ what: 'settlement' }, settlements)
        saidAgain.inc({ what: 'operation' }, operations)
      },
      'child.ended': ({ isolate, why }) => endedChildren.inc({ isolate, reason: why }),
      'loop.blocked': ({ forMs }) => blocked.inc(forMs / 1_000),
      'flow.repaired': ({ count }) => repaired.inc(count),
      'queue.full': ({ queue, count }) => full.inc({ queue: this.#deps.queues.of(queue) }, count),
    }
  }

  /** Brings those up to date that are read, not counted. */
  refresh(): void {
    this.#jobs.refresh()
    const { inFlight } = this.#metrics
    const counts = new Map<string, number>()
    for (const queue of this.#running.values()) counts.set(queue, (counts.get(queue) ?? 0) + 1)
    inFlight.reset()
    // A queue that had jobs in flight says 0 from then on, instead of going silent.
    for (const queue of this.#queuesSeen) inFlight.set({ queue }, counts.get(queue) ?? 0)
  }

  #enqueued({ jobs, tookMs }: EventOf<'enqueue.answered'>): void {
    this.#metrics.enqueueSeconds.observe(tookMs / 1_000)
    for (const job of jobs) {
      const counts = this.#jobs.of(job)
      if (job.created) counts.enqueued++
      else counts.deduplicated++
    }
  }

  #claimed({ count, tookMs }: EventOf<'job.claimed'>): void {
    const { claimed, emptyClaims, claimSeconds } = this.#metrics
    if (count === 0) {
      emptyClaims.inc()
      return
    }
    claimed.inc(count)
    claimSeconds.observe(tookMs / 1_000)
  }

  #started({ id, queue, waitMs }: EventOf<'job.started'>): void {
    const name = this.#deps.queues.of(queue)
    this.#queuesSeen.add(name)
    this.#running.set(id, name)
    if (waitMs !== null) this.#metrics.waitSeconds.observe({ queue: name }, waitMs / 1_000)
  }

  #ended({ id, type, ranMs, scope, limit }: EventOf<'job.ended'>): void {
    const named = limit === undefined ? '' : this.#deps.limits.of(limit)
    if (scope !== undefined) this.#metrics.rateLimited.inc({ scope, limit: named })
    if (ranMs === null) return
    this.#running.delete(id)
    this.#metrics.runSeconds.observe({ type: this.#deps.types.of(type) }, ranMs / 1_000)
  }

  #settled(event: EventOf<'job.settled'>): void {
    const { settled } = this.#jobs.of(event)
    settled[event.state] = (settled[event.state] ?? 0) + 1
    this.#became(event)
  }

  #rescued(event: EventOf<'job.rescued'>): void {
    this.#jobs.of(event).rescued++
    this.#became(event)
  }

  #became(event: EventOf<'job.settled'> | EventOf<'job.rescued'>): void {
    if (event.state === 'retrying') this.#jobs.of(event).retried++
    if (event.state !== 'dead') return
    const { dead } = this.#jobs.of(event)
    const reason = event.reason ?? 'unknown'
    dead[reason] = (dead[reason] ?? 0) + 1
  }
}

function makeMetrics(registry: Registry) {
  const registers = [registry]
  const counter = <Label extends string>(name: string, help: string, labelNames: Label[] = []) =>
    new Counter<Label>({ name: `holdfast_${name}`, help, labelNames, registers })
  const histogram = <Label extends string>(name: string, help: string, buckets: number[], labelNames: Label[] = []) =>
    new Histogram<Label>({ name: `holdfast_${name}`, help, buckets, labelNames, registers })
  return {
    claimed: counter('jobs_claimed_total', 'Jobs this process claimed.'),
    emptyClaims: counter('claims_empty_total', 'Claims that found no job.'),
    promoted: counter('jobs_promoted_total', 'Jobs made ready when their time had come or their parents had finished.'),
    extended: counter('leases_extended_total', 'Leases extended by the heartbeat.'),
    fired: counter('schedules_fired_total', 'Jobs made by schedules.'),
    late: counter('schedules_late_total', 'Firings more than 15 s after their time; counted once a minute.'),
    broken: counter('schedules_broken_total', 'Schedules found unreadable.'),
    failures: counter('store_failures_total', 'Calls of the store that failed.', ['during']),
    timelines: counter('store_timeline_changes_total', 'Failovers of the store that this process went through.'),
    saidAgain: counter('store_said_again_total', 'What a failover had lost and this process said again.', ['what']),
    outboxSent: counter(
      'outbox_sent_total',
      'Jobs of the outbox that this process sent, first or again after a failover.',
      ['again'],
    ),
    outboxFates: counter('outbox_unsent_total', 'What was not created or settled, by the reason.', ['outcome']),
    endedChildren: counter('children_ended_total', 'Children that ran handlers and ended, by the reason.', [
      'isolate',
      'reason',
    ]),
    blocked: counter(
      'event_loop_blocked_seconds_total',
      'Time the event loop stood still, counting stops of 2 s or longer.',
    ),
    rateLimited: counter('rate_limited_total', 'Attempts that were told to wait, by what waits with them.', [
      'scope',
      'limit',
    ]),
    full: counter('queue_full_total', 'Enqueues that were refused, or wait, because their queue or group is full.', [
      'queue',
    ]),
    repaired: counter('flow_repaired_total', 'Groups that no claim would have looked at; it stays 0.'),
    enqueueSeconds: histogram('enqueue_duration_seconds', 'From an enqueue call to its durable answer.', CALL_BUCKETS),
    claimSeconds: histogram('claim_duration_seconds', 'From asking for jobs to having leased some.', CALL_BUCKETS),
    waitSeconds: histogram('job_wait_seconds', 'From enqueue to the start of the first attempt.', JOB_BUCKETS, [
      'queue',
    ]),
    runSeconds: histogram('job_run_seconds', 'Time in the handler, of every attempt.', JOB_BUCKETS, ['type']),
    inFlight: gaugesOf(registry)('jobs_in_flight', 'Jobs whose handlers run in this process.', ['queue']),
  }
}
