// Slots that wait for jobs which the same process is about to enqueue. The statement that writes the jobs claims them, see core/reserve.ts.
// ◄── fetcher.ts

import type { ClaimedJob, NewJob } from '../core/job.js'
import { sleep } from '../core/ports.js'
import { isPlain, type Reservation } from '../core/reserve.js'
import type { FetcherDeps } from './fetcher.js'
import type { WorkerSettings } from './options.js'

const WAIT_MS = 10

/** How many jobs a claim asked for, and when it was sent. */
export interface SentClaim {
  readonly asked: number
  readonly sentMs: number
}

interface ReservationEnds {
  onClaimed(jobs: readonly ClaimedJob[], claim: SentClaim): void
  onFailed(): void
}

/** The reservations of one worker. */
export class Reservations {
  readonly #deps: FetcherDeps
  readonly #ends: ReservationEnds
  readonly #open = new Set<Promise<void>>()

  constructor(deps: FetcherDeps, ends: ReservationEnds) {
    this.#deps = deps
    this.#ends = ends
  }

  /** Reserves idle slots for the first of these jobs; null when there are none. */
  reserve(jobs: readonly NewJob[]): Reservation | null {
    const { slots, settings, workerId, storeTime, ports } = this.#deps
    const asked = countTakeable(jobs, settings, slots.idle())
    if (asked === 0) return null
    slots.reserve(asked)
    const sentMs = ports.clock.monotonic()
    let over: () => void = () => {}
    const whenOver = new Promise<void>((resolve) => {
      over = resolve
    })
    this.#open.add(whenOver)
    const end = (claimed: readonly ClaimedJob[]) => {
      slots.reserve(-asked)
      this.#open.delete(whenOver)
      over()
      if (claimed.length === 0) {
        this.#ends.onFailed()
        return
      }
      storeTime.learn(claimed[0]!.createdAtMs)
      this.#ends.onClaimed(claimed, { asked, sentMs })
      slots.pump()
    }
    return {
      claim: { worker: workerId, leaseMs: settings.leaseMs, count: asked },
      claimed: end,
      failed: () => end([]),
    }
  }

  /** Resolves when the claims in flight are answered, after `WAIT_MS` at most; null when no slot is idle. */
  waitFor(inFlight: Promise<void>): Promise<void> | null {
    const { slots, ports } = this.#deps
    if (slots.idle() === 0) return null
    const patience = new AbortController()
    const answered = inFlight.then(() => patience.abort())
    return Promise.race([answered, sleep(ports.timers, WAIT_MS, patience.signal)])
  }

  /** Resolves when every reservation has ended. */
  whenOver(): Promise<unknown> {
    return Promise.all(this.#open)
  }
}

/** How many of the first jobs a worker of these settings may take as they are enqueued: of one queue, and known to it. */
function countTakeable(jobs: readonly NewJob[], { queues, handlers }: WorkerSettings, idle: number): number {
  const queue = jobs[0]?.queue
  if (idle === 0 || queue === undefined || !queues.includes(queue)) return 0
  let count = 0
  while (count < jobs.length && count < idle) {
    const job = jobs[count]!
    if (job.queue !== queue || !isPlain(job) || !handlers.has(job.type)) break
    count++
  }
  return count
}
