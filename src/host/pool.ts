// The children of one kind. Each has a seat: when it ends, another takes its place, later and later if that does not help. Calls go to the child
// with the fewest.
//
// A job that would be dead after one more crash gets a child of its own: no neighbour's crash is ever its death, and its own harms no neighbour.

import { readFileSync } from 'node:fs'
import type { Isolate } from '../core/definition.js'
import { HoldfastError } from '../core/errors.js'
import type { Emit } from '../core/events.js'
import { CRASHES_MAX } from '../core/limits.js'
import { type Ports, sleep, type Timer } from '../core/ports.js'
import { RemoteEnd } from '../worker/isolation.js'
import type { ChannelEnd } from './channel.js'
import { type Call, Child } from './child.js'
import type { HostSettings } from './options.js'

const LOOK_MS = 500
/** A child that has sent nothing for this long may have been stopped by a signal. */
const FROZEN_LOOK_MS = 2_500
/** How long a child may take from its start until its handlers are loaded. */
const START_MS_MAX = 60_000
/** How long a job waits for a child before it is given back. */
const WAIT_MS_MAX = 10_000
const GIVEN_BACK_MS = 1_000
/** A child that lived for so long did not fail at its start. */
const SETTLED_IN_MS = 10_000
const BACKOFF_MS = 100
const BACKOFF_MS_MAX = 30_000
/** How long the child for last chances is kept when there is none. */
const SPARE_IDLE_MS = 10_000
const LEAVE_MS_MAX = 2_000
/** After this long without being read the time of a job stands still. */
const UNREAD_MS_MAX = 400

export interface PoolDeps {
  readonly isolate: Isolate
  readonly settings: HostSettings
  readonly ports: Ports
  readonly emit: Emit
}

/** A place for one child at a time, and for its replacement while that starts or the old one finishes. */
interface Seat {
  readonly isSpare: boolean
  current: Child | null
  next: Child | null
  retiring: Child | null
  /** How often children have ended soon after their start, in a row. */
  failures: number
  restart: Timer | null
  /** For how long the current child has been stopped by a signal. */
  frozenMs: number
}

export class Pool {
  readonly #deps: PoolDeps
  readonly #seats: readonly Seat[]
  readonly #waiting: Call[] = []
  #looking: Timer | null = null
  #onFirst: { resolve: () => void; reject: (error: Error) => void } | null = null
  #starting: Promise<void> | null = null
  #onEmpty: (() => void) | null = null
  #isStopped = false
  #restarts = 0

  constructor(deps: PoolDeps) {
    this.#deps = deps
    const seat = (isSpare: boolean) => ({
      isSpare,
      current: null,
      next: null,
      retiring: null,
      failures: 0,
      restart: null,
      frozenMs: 0,
    })
    this.#seats = [...Array.from({ length: deps.settings.children }, () => seat(false)), seat(true)]
  }

  /** How many children are ready, and how many have ended otherwise than in good order. */
  get running(): number {
    return this.#children().filter(({ isReady }) => isReady).length
  }

  get restarts(): number {
    return this.#restarts
  }

  /** Starts the children and resolves when the first of them is ready. Raises `module_failed` when it cannot be. */
  start(): Promise<void> {
    this.#starting ??= new Promise<void>((resolve, reject) => {
      this.#isStopped = false
      this.#onFirst = { resolve, reject }
      for (const seat of this.#seats) if (!seat.isSpare) this.#fill(seat)
      this.#look()
    })
    return this.#starting
  }

  /** Has a child run this call, now or when there is one. */
  add(call: Call): void {
    // A worker that is stepped by hand was never started.
    if (this.#starting === null) this.start().catch(() => this.stop())
    this.#waiting.push(call)
    this.#pump()
  }

  /** Takes a call out that still waits. */
  remove(call: Call): void {
    const index = this.#waiting.indexOf(call)
    if (index !== -1) this.#waiting.splice(index, 1)
    call.end(givenBack(0))
  }

  /** Ends all children: those that do not end by themselves by force. */
  async stop(): Promise<void> {
    this.#isStopped = true
    this.#starting = null
    this.#looking?.cancel()
    for (const seat of this.#seats) seat.restart?.cancel()
    for (const call of this.#waiting.splice(0)) call.end(givenBack(0))
    // Who waits for the first child need not any more; that it ends now says nothing about the module.
    this.#onFirst?.resolve()
    this.#onFirst = null
    const left = this.#children()
    for (const child of left) child.leave('stopped')
    await this.#untilEmpty(LEAVE_MS_MAX)
    for (const child of this.#children()) child.kill('stopped')
    await this.#untilEmpty(LEAVE_MS_MAX)
  }

  async #untilEmpty(ms: number): Promise<void> {
    if (this.#children().length === 0) return
    const patience = new AbortController()
    const empty = new Promise<void>((resolve) => {
      this.#onEmpty = resolve
    })
    await Promise.race([empty, sleep(this.#deps.ports.timers, ms, patience.signal)])
    patience.abort()
  }

  #children(): Child[] {
    return this.#seats
      .flatMap(({ current, next, retiring }) => [current, next, retiring])
      .filter((child) => child !== null)
  }

  #pump(): void {
    let index = 0
    while (index < this.#waiting.length) {
      const call = this.#waiting[index]!
      const child = this.#childFor(call)
      if (child === null) {
        // Only those on their last chance wait for another child than the rest.
        if (!isLastChance(call)) break
        index++
        continue
      }
      this.#waiting.splice(index, 1)
      child.add(call)
    }
  }

  #childFor(call: Call): Child | null {
    if (isLastChance(call)) {
      const spare = this.#seats[this.#seats.length - 1]!
      if (spare.current === null && spare.next === null && spare.restart === null) this.#fill(spare)
      return spare.current?.hasRoom === true && spare.current.calls.size === 0 ? spare.current : null
    }
    let best: Child | null = null
    let bestLoad = Number.POSITIVE_INFINITY
    for (const { isSpare, current } of this.#seats) {
      if (isSpare || current?.hasRoom !== true) continue
      // Away from suspects where that is possible: their crash would be the crash of all.
      const load = current.calls.size + (current.hasSuspect ? this.#deps.settings.jobsPerChild : 0)
      if (load < bestLoad) [best, bestLoad] = [current, load]
    }
    return best
  }

  #fill(seat: Seat): void {
    seat.restart = null
    if (this.#isStopped || seat.next !== null) return
    const { isolate, settings, ports } = this.#deps
    seat.next = new Child({
      isolate,
      settings,
      ports,
      onReady: (child) => this.#ready(seat, child),
      onRoom: (child) => this.#room(seat, child),
      onEnded: (child, end) => this.#ended(seat, child, end),
    })
  }

  #ready(seat: Seat, child: Child): void {
    const { ports, isolate } = this.#deps
    const tookMs = Math.round(ports.clock.monotonic() - child.startedMs)
    this.#deps.emit({ name: 'child.started', isolate, pid: child.pid, tookMs })
    // Where the one before ended by itself, an older one may still be finishing its jobs: it keeps its place, so that it is ended after them.
    if (seat.current !== null) seat.retiring = seat.current
    seat.current = child
    seat.next = null
    if (seat.retiring !== null) this.#leaveIfIdle(seat.retiring)
    this.#onFirst?.resolve()
    this.#onFirst = null
    this.#pump()
  }

  #room(seat: Seat, child: Child): void {
    if (child === seat.retiring) this.#leaveIfIdle(child)
    else if (child.jobsDone >= (this.#deps.settings.jobsMax ?? Number.POSITIVE_INFINITY)) this.#replace(seat)
    this.#pump()
  }

  #leaveIfIdle(child: Child): void {
    if (child.calls.size === 0) child.leave('recycled')
  }

  /** Starts the replacement; the child goes on until that is ready, then finishes what it has. One at a time for each seat. */
  #replace(seat: Seat): void {
    if (seat.next === null && seat.retiring === null && seat.restart === null) this.#fill(seat)
  }

  #ended(seat: Seat, child: Child, { code, signal }: ChannelEnd): void {
    const { emit, isolate, settings } = this.#deps
    const { pid, why, calls, failure } = child
    emit({ name: 'child.ended', isolate, pid, why, code, signal, jobs: calls.size, error: failure?.message ?? null })
    if (why !== 'recycled' && why !== 'stopped') this.#restarts++
    if (seat.retiring === child) seat.retiring = null
    if (seat.current === child) seat.current = null
    if (seat.next === child) {
      seat.next = null
      this.#onFirst?.reject(
        new HoldfastError(
          'module_failed',
          `no child could load ${settings.module.href}: ${failure?.message ?? `it ended with ${signal ?? `code ${code}`}`}`,
          { cause: failure },
        ),
      )
      if (this.#onFirst !== null) this.#isStopped = true
      this.#onFirst = null
    }
    if (this.#children().length === 0) this.#onEmpty?.()
    this.#refill(seat, child)
  }

  #refill(seat: Seat, child: Child): void {
    const { ports } = this.#deps
    if (this.#isStopped || seat.next !== null || seat.restart !== null) return
    // The old one has a replacement, or goes on without one. A replacement that could not start is tried again in any case.
    if (seat.current !== null && child.isReady) return
    if (seat.isSpare && !this.#waiting.some(isLastChance)) return
    const isSettledIn = child.isReady && ports.clock.monotonic() - child.startedMs >= SETTLED_IN_MS
    seat.failures = isSettledIn ? 0 : seat.failures + 1
    // A child that ends once is replaced immediately, however young: most often it was killed.
    if (isSettledIn || (child.isReady && seat.failures === 1)) this.#fill(seat)
    else seat.restart = ports.timers.after(this.#backoffMs(seat.failures), () => this.#fill(seat))
  }

  #backoffMs(failures: number): number {
    const ms = Math.min(BACKOFF_MS_MAX, BACKOFF_MS * 2 ** Math.min(failures, 20))
    return Math.ceil(ms * (0.5 + this.#deps.ports.random.float() / 2))
  }

  /** Twice a second: who waits too long, takes too long to start, or holds too much. */
  #look(): void {
    const { ports, settings } = this.#deps
    const nowMs = ports.clock.monotonic()
    for (const call of this.#waiting.filter(({ sinceMs }) => nowMs - sinceMs > WAIT_MS_MAX)) {
      this.#waiting.splice(this.#waiting.indexOf(call), 1)
      call.end(givenBack(Math.ceil(GIVEN_BACK_MS * (1 + 2 * ports.random.float()))))
    }
    const limit = settings.memoryBytes ?? Number.POSITIVE_INFINITY
    for (const seat of this.#seats) {
      const { current, next, retiring } = seat
      if (next !== null && nowMs - next.startedMs > START_MS_MAX) next.kill('load')
      for (const child of [current, retiring]) if (child !== null && child.rssBytes > 2 * limit) child.kill('memory')
      if (current === null) continue
      current.stopUnreadClocks(UNREAD_MS_MAX)
      this.#lookAtFrozen(seat, current)
      const isIdle = current.calls.size === 0 && nowMs - current.busyMs > SPARE_IDLE_MS
      if (seat.isSpare && isIdle) current.leave('recycled')
      else if (current.rssBytes > limit) this.#replace(seat)
      if (seat.failures > 0 && nowMs - current.startedMs >= SETTLED_IN_MS) seat.failures = 0
    }
    this.#looking = ports.timers.after(LOOK_MS, () => this.#look())
  }

  /** A child that a signal has stopped for half a lease is ended: its jobs would wait as long as it does. One that computes is left alone. */
  #lookAtFrozen(seat: Seat, { silentMs, pid }: Child): void {
    const isFrozen = silentMs > FROZEN_LOOK_MS && pid !== null && isStopped(pid)
    seat.frozenMs = isFrozen ? seat.frozenMs + LOOK_MS : 0
    if (seat.frozenMs > this.#deps.settings.leaseMs / 2) seat.current!.kill('stuck')
  }
}

/** Whether a signal has stopped the process (SIGSTOP). Known on Linux only. */
function isStopped(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    return stat[stat.lastIndexOf(')') + 2] === 'T'
  } catch {
    return false
  }
}

function isLastChance({ held }: Call): boolean {
  return held.crashes >= CRASHES_MAX - 1
}

/** No handler ran: the job goes back with its attempt. */
function givenBack(delayMs: number): RemoteEnd {
  return new RemoteEnd({
    result: null,
    verdict: { outcome: { kind: 'released', delayMs }, error: null, isControl: false },
  })
}
