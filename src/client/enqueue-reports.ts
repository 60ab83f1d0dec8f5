// What is reported about an enqueue beside its answer: counts, an event, a span, and to promote the time it must wake. ◄── client.ts

import { NAME_LENGTH_MAX } from '../core/check.js'
import type { FullRefusal } from '../core/flow/views.js'
import type { Enqueued, NewJob } from '../core/job.js'
import type { TracedEnqueue } from '../core/tracer.js'
import type { ClientDeps } from './client-deps.js'
import { DEFAULT_QUEUE } from './define-job.js'
import { FullReports } from './full-reports.js'
import type { EnqueueResult } from './job-handle.js'
import type { JobTarget } from './prepare.js'

/** The reports of one client. */
export class EnqueueReports {
  readonly #deps: Pick<ClientDeps, 'ports' | 'events' | 'time' | 'tally' | 'onTimed'>
  readonly #full: FullReports

  constructor(deps: Pick<ClientDeps, 'ports' | 'events' | 'time' | 'tally' | 'onTimed'>) {
    this.#deps = deps
    this.#full = new FullReports({ ports: deps.ports, emit: deps.events.emit })
  }

  /** Takes note of an answer that says that the queue or the group of a job is full. Returns the answer. */
  refused(answer: Enqueued): Enqueued {
    const full = fullOf(answer)
    if (full !== null) this.#full.note(full)
    return answer
  }

  close(): void {
    this.#full.close()
  }

  /** The store has answered for a job. Returns the answer. */
  written<Result extends EnqueueResult>(job: NewJob, result: Result): Result {
    if (result.created) this.#deps.tally?.enqueued(job.queue, 1)
    if (result.state !== 'scheduled' || job.when === null) return result
    const delayMs = 'delayMs' in job.when ? job.when.delayMs : job.when.runAtMs - this.#deps.time.nowMs()
    this.#deps.onTimed(Math.max(0, delayMs))
    return result
  }

  /** A call is answered. Returns the answers. */
  answered<Result extends EnqueueResult>(
    jobs: readonly NewJob[],
    results: readonly Result[],
    startedMs: number,
  ): readonly Result[] {
    if (!this.#deps.events.isHeard) return results
    const tookMs = this.#deps.ports.clock.monotonic() - startedMs
    const answered = jobs.map(({ type, queue }, index) => {
      const { id, created } = results[index]!
      return { id, type, queue, created }
    })
    this.#deps.events.emit({ name: 'enqueue.answered', tookMs, jobs: answered })
    return results
  }
}

/** Why a job was not written, when its queue or group is full. */
export function fullOf(answer: Enqueued): FullRefusal | null {
  if (!('refused' in answer)) return null
  const { refused } = answer
  return refused.code === 'queue_full' || refused.code === 'group_full' ? refused : null
}

/** What a tracer gets about a call before its jobs are made; what is wrong with them is found later. */
export function tracedTarget(target: JobTarget | null, count: number, queue: unknown): TracedEnqueue {
  const short = (name: unknown) => (typeof name === 'string' ? name.slice(0, NAME_LENGTH_MAX) : null)
  if (target === null) return { count, type: null, queue: null }
  const definition = typeof target === 'object' ? target : null
  return { count, type: short(definition?.type ?? target), queue: short(queue ?? definition?.queue ?? DEFAULT_QUEUE) }
}
