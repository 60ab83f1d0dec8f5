// How long a command that stays runs: until a signal, an error nobody caught, or until nobody reads its output.
// The first of them asks it to stop in good order; a second signal ends the process at once.

import { constants } from 'node:os'
import type { Cli } from './command.js'
import { reportError } from './errors.js'
import { EXIT } from './exit-codes.js'

interface LifetimeOptions {
  readonly signals: readonly NodeJS.Signals[]
  /** Gets each error nobody caught, and answers whether it has dealt with it. */
  readonly onUncaught: (error: unknown) => boolean
  /** What is said when a second signal ends it. Default: what becomes of the jobs that ran. */
  readonly leaving?: string
}

const LEAVING = 'left at once: what was running is run again when its lease has run out'

// A terminal sends Ctrl-C to every process of the group, and npm passes its own on as well: the same one arrives twice.
const SAME_SIGNAL_MS = 500

/** The time a command has. Made when it starts; its process belongs to it from then on. */
export class Lifetime {
  /** Resolves when it is time to stop. */
  readonly over: Promise<void>
  readonly #controller = new AbortController()
  readonly #cli: Cli
  #resolve: () => void = () => {}
  readonly #leaving: string
  #signalledAtMs = Number.NEGATIVE_INFINITY

  constructor(cli: Cli, { signals, onUncaught, leaving = LEAVING }: LifetimeOptions) {
    this.#cli = cli
    this.#leaving = leaving
    this.over = new Promise((resolve) => {
      this.#resolve = resolve
    })
    const onError = (error: unknown) => {
      if (!onUncaught(error)) this.#fail(error)
    }
    for (const signal of signals) process.on(signal, () => this.#hear(signal))
    process.on('uncaughtException', onError)
    process.on('unhandledRejection', onError)
    cli.stdout.onGone(() => this.#end())
  }

  /** Fires when it is time to stop. */
  get signal(): AbortSignal {
    return this.#controller.signal
  }

  #hear(signal: NodeJS.Signals): void {
    const nowMs = performance.now()
    const isFirst = this.#signalledAtMs === Number.NEGATIVE_INFINITY
    const isEcho = nowMs - this.#signalledAtMs < SAME_SIGNAL_MS
    this.#signalledAtMs = nowMs
    if (isFirst) this.#end()
    else if (!isEcho) {
      this.#cli.stderr.line(this.#leaving)
      process.exit(128 + constants.signals[signal])
    }
  }

  #fail(error: unknown): void {
    // Always with its stack: nobody can run the moment again to see it.
    reportError(error, this.#cli.stderr, { verbose: true })
    process.exitCode = EXIT.unexpected
    this.#end()
  }

  /** Ends it, as a signal would. */
  end(): void {
    this.#end()
  }

  #end(): void {
    this.#resolve()
    this.#controller.abort()
  }
}
