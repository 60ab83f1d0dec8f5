// Windows over a worker that keeps draining: jobs that succeeded in a window, its length, the times of its claims.

import type { Message } from '../children.js'
import type { SeenClaim } from './watched-store.js'

export interface WindowRequest extends Message {
  readonly kind: 'window'
  /** Ends the window when this many have succeeded; null: only by time. */
  readonly jobs: number | null
  /** Ends it after this long at the latest. */
  readonly secondsMax: number
  /** The rate that handlers are limited to, or null for no limit. */
  readonly jobsPerSecond: number | null
  /** Begins it when the next claim that finds jobs is sent, instead of immediately. */
  readonly fromClaim: boolean
}

export interface Window extends Message {
  readonly kind: 'window'
  readonly jobs: number
  readonly seconds: number
  /** How long each claim took that found jobs, in milliseconds. */
  readonly claimsMs: readonly number[]
  readonly claimedJobs: number
  /** How many had succeeded by when, about once a second. */
  readonly course: readonly (readonly [seconds: number, jobs: number])[]
}

const COURSE_MS = 1_000

interface OpenWindow {
  readonly jobs: number | null
  beganMs: number | null
  readonly base: number
  readonly claims: SeenClaim[]
  readonly end: () => void
}

/** Counts a worker's claims and successes in windows. */
export class WindowClock {
  /** How many jobs have succeeded so far. */
  total = 0
  #open: OpenWindow | null = null

  claimed(claim: SeenClaim): void {
    const open = this.#open
    if (open === null || claim.jobs === 0) return
    open.beganMs ??= claim.sentMs
    // A claim in progress when the window began does not count.
    if (claim.sentMs >= open.beganMs) open.claims.push(claim)
  }

  succeeded(jobs: number): void {
    this.total += jobs
    const open = this.#open
    if (open !== null && open.jobs !== null && this.total - open.base >= open.jobs) open.end()
  }

  /** Opens a window and resolves when it is over. One at a time. */
  window({ jobs, secondsMax, fromClaim }: WindowRequest): Promise<Window> {
    return new Promise((resolve) => {
      const course: [number, number][] = []
      const note = () => {
        if (open.beganMs !== null) course.push([(performance.now() - open.beganMs) / 1_000, this.total - open.base])
      }
      const timer = setInterval(note, COURSE_MS)
      const open: OpenWindow = {
        jobs,
        beganMs: fromClaim ? null : performance.now(),
        base: this.total,
        claims: [],
        end: () => {
          const endedMs = performance.now()
          clearInterval(timer)
          clearTimeout(deadline)
          this.#open = null
          note()
          resolve({
            kind: 'window',
            jobs: this.total - open.base,
            seconds: (endedMs - (open.beganMs ?? endedMs)) / 1_000,
            claimsMs: open.claims.map(({ tookMs }) => tookMs),
            claimedJobs: open.claims.reduce((sum, claim) => sum + claim.jobs, 0),
            course,
          })
        },
      }
      const deadline = setTimeout(open.end, secondsMax * 1_000)
      this.#open = open
    })
  }
}
