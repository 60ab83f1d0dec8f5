// The outside world as the library sees it. Nothing in core, client, worker or upkeep reads a clock, sets a timer
// or draws a random number except through these, so that a simulator or a test can own all three.

/** Where time comes from. */
export interface Clock {
  /** Wall time in milliseconds since 1970. For showing and for ids; no decision about a job depends on it. */
  now(): number
  /** A time that only grows, in milliseconds. For measuring durations. */
  monotonic(): number
}

/** A timer that was set. */
export interface Timer {
  cancel(): void
}

/** Where waiting comes from. */
export interface Timers {
  /** Calls `run` once after `ms`. The timer does not keep the process alive unless `keepAlive` is set. */
  after(ms: number, run: () => void, options?: { readonly keepAlive?: boolean }): Timer
  /** Calls `run` once, after the input and output that is already waiting. */
  soon(run: () => void): void
}

/** Where chance comes from. */
export interface Random {
  /** A number from 0 up to, not including, 1. */
  float(): number
  /** Fills `target` with unguessable bytes. */
  fill(target: Uint8Array): void
}

/** The three together. */
export interface Ports {
  readonly clock: Clock
  readonly timers: Timers
  readonly random: Random
}

/** Resolves after `ms`, or immediately when `signal` fires: the caller looks at the signal to know which. */
export function sleep(timers: Timers, ms: number, signal?: AbortSignal): Promise<void> {
  if (signal?.aborted) return Promise.resolve()
  return new Promise((resolve) => {
    const end = () => {
      timer.cancel()
      signal?.removeEventListener('abort', end)
      resolve()
    }
    const timer = timers.after(ms, end, { keepAlive: true })
    signal?.addEventListener('abort', end, { once: true })
  })
}
