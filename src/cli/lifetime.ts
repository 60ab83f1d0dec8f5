// How long a command runs that does not end by itself: until a signal, an uncaught error, or until its output has no reader. The
// first of them asks it to stop in good order. A second signal ends the process immediately.

import { constants } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { isHoldfastError } from '../core/errors.js'
import type { Cli } from './command.js'
import { reportError } from './errors.js'
import { EXIT } from './exit-codes.js'

interface LifetimeOptions {
  readonly signals: readonly NodeJS.Signals[]
  /** Receives each uncaught error and returns true if it has dealt with it. */
  readonly onUncaught: (error: unknown) => boolean
  /** Printed when a second signal ends the process. Default: what happens to the jobs that were running. */
  readonly lastWords?: string
}

const LAST_WORDS = 'stopped immediately: running jobs run again when their leases expire'

// A terminal sends Ctrl-C to every process of the group, and npm passes its own on: the same one arrives twice.
const SAME_SIGNAL_MS = 500

/** The lifetime of a command. Create one when the command starts: it takes over the signals of the process. */
export class Lifetime {
  /** Resolves when it is time to stop. */
  readonly over: Promise<void>
  readonly #controller = new AbortController()
  readonly #cli: Cli
  #resolve: () => void = () => {}
  readonly #lastWords: string
  #signalledAtMs = Number.NEGATIVE_INFINITY

  constructor(cli: Cli, { signals, onUncaught, lastWords = LAST_WORDS }: LifetimeOptions) {
    this.#cli = cli
    this.#lastWords = lastWords
    this.over = new Promise((resolve) => {
      this.#resolve = resolve
    })
    const onError = (error: unknown) => {
      if (!onUncaught(error)) this.#fail(error)
    }
    for (const signal of signals) process.on(signal, () => this.#onSignal(signal))
    process.on('uncaughtException', onError)
    process.on('unhandledRejection', onError)
    cli.stdout.onGone(() => this.end())
  }

  /** Aborts when it is time to stop. */
  get signal(): AbortSignal {
    return this.#controller.signal
  }

  #onSignal(signal: NodeJS.Signals): void {
    const nowMs = performance.now()
    const isFirst = this.#signalledAtMs === Number.NEGATIVE_INFINITY
    const isRepeat = nowMs - this.#signalledAtMs < SAME_SIGNAL_MS
    this.#signalledAtMs = nowMs
    if (isFirst) this.end()
    else if (!isRepeat) {
      this.#cli.stderr.line(this.#lastWords)
      process.exit(128 + constants.signals[signal])
    }
  }

  #fail(error: unknown): void {
    // With its stack: it cannot be provoked again with --verbose.
    reportError(error, this.#cli.stderr, { verbose: true })
    process.exitCode = EXIT.unexpected
    this.end()
  }

  /** Ends it, as a signal would. */
  end(): void {
    this.#resolve()
    this.#controller.abort()
  }
}

/** The lifetime of a command that only reads: a second signal interrupts nothing. */
export function readingLifetime(cli: Cli, signals: readonly NodeJS.Signals[] = ['SIGINT', 'SIGTERM']): Lifetime {
  return new Lifetime(cli, { signals, onUncaught: () => false, lastWords: 'stopped immediately' })
}

interface Polling {
  readonly cli: Cli
  readonly everyMs: number
  readonly poll: () => Promise<void>
}

/**
 * Calls `poll` at an interval until `signal` aborts. While the store is unavailable it keeps polling, and reports that once.
 * Other errors are raised.
 */
export async function pollUntil(signal: AbortSignal, { cli, everyMs, poll }: Polling): Promise<void> {
  let isUnavailable = false
  while (!signal.aborted) {
    try {
      await poll()
      if (isUnavailable) cli.stderr.line('the store is available again')
      isUnavailable = false
    } catch (error) {
      if (signal.aborted) return
      if (!isHoldfastError(error) || !error.retryable) throw error
      if (!isUnavailable) cli.stderr.line(`${cli.stderr.style('red', 'unavailable:')} ${error.message}`)
      isUnavailable = true
    }
    await sleep(everyMs, undefined, { signal }).catch(() => {})
  }
}
