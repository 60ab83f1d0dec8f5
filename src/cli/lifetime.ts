// How long a command that stays runs: until a signal, an error nobody caught, or until nobody reads its output.
// The first of them asks it to stop in good order; a second signal ends the process at once.

import { constants } from 'node:os'
import type { Cli } from './command.js'

/** Why a command that stays has to stop. */
export type End =
  | { readonly kind: 'signal'; readonly signal: NodeJS.Signals }
  | { readonly kind: 'error'; readonly error: unknown }
  | { readonly kind: 'unread' }

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

// A terminal sends Ctrl-C to every process of the group, and npm passes its own on as well: the same one arrives twice.
const SAME_SIGNAL_MS = 500

/** The time a command has. Made when it starts; its process belongs to it from then on. */
export class Lifetime {
  /** Resolves with the first reason to stop. */
  readonly over: Promise<End>
  readonly #controller = new AbortController()
  readonly #cli: Cli
  readonly #onUncaught: (error: unknown) => boolean
  #resolve: (end: End) => void = () => {}
  #signalledAtMs = Number.NEGATIVE_INFINITY

  /** `onUncaught` gets each error nobody caught, and answers whether it has dealt with it. */
  constructor(cli: Cli, { onUncaught }: { readonly onUncaught: (error: unknown) => boolean }) {
    this.#cli = cli
    this.#onUncaught = onUncaught
    this.over = new Promise((resolve) => {
      this.#resolve = resolve
    })
    for (const signal of SIGNALS) process.on(signal, () => this.#hear(signal))
    process.on('uncaughtException', (error) => this.#catch(error))
    process.on('unhandledRejection', (error) => this.#catch(error))
    cli.stdout.onGone(() => this.#end({ kind: 'unread' }))
  }

  /** Fires with the first reason to stop. */
  get signal(): AbortSignal {
    return this.#controller.signal
  }

  #hear(signal: NodeJS.Signals): void {
    const nowMs = performance.now()
    const isRepeated = nowMs - this.#signalledAtMs < SAME_SIGNAL_MS
    const isFirst = this.#signalledAtMs === Number.NEGATIVE_INFINITY
    this.#signalledAtMs = nowMs
    if (isFirst) this.#end({ kind: 'signal', signal })
    else if (!isRepeated) {
      this.#cli.stderr.line('left at once: what was running is run again when its lease has run out')
      process.exit(128 + constants.signals[signal])
    }
  }

  #catch(error: unknown): void {
    if (!this.#onUncaught(error)) this.#end({ kind: 'error', error })
  }

  #end(end: End): void {
    this.#resolve(end)
    this.#controller.abort()
  }
}
