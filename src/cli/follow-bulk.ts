// Follows a bulk action to its end, with a progress bar. This process does batches too, so that the action finishes even when
// no worker is running.

import { setTimeout as sleep } from 'node:timers/promises'
import { HoldfastError, isHoldfastError } from '../core/errors.js'
import { given } from '../core/given.js'
import type { BulkView } from '../core/operating.js'
import type { Store } from '../core/store.js'
import type { Holdfast } from '../holdfast.js'
import type { Cli } from './command.js'
import { EXIT, type ExitCode } from './exit-codes.js'
import { chooseStore, type StoreFlags } from './input/connection.js'
import { Progress } from './output/progress.js'

const POLL_MS = 150

/** True when the bulk action has ended. */
export function isOver({ state }: BulkView): boolean {
  return state !== 'waiting' && state !== 'running'
}

/** The exit code of a bulk action that has ended. */
export function exitCodeOfBulk({ state, refused }: BulkView): ExitCode {
  if (state === 'failed') return EXIT.unexpected
  if (state === 'cancelled') return EXIT.conflict
  return refused > 0 ? EXIT.partial : EXIT.ok
}

/** How many jobs it will change; null when that is not known exactly. */
function expectedOf({ expected, limit }: BulkView): number | null {
  return expected === null || !expected.isExact ? null : Math.min(expected.count, limit)
}

/** Waits for its end, or for Ctrl-C, which leaves it to other processes. */
export async function followBulk(cli: Cli, holdfast: Holdfast, id: string, flags: StoreFlags): Promise<BulkView> {
  const interrupt = new AbortController()
  const onSignal = () => interrupt.abort()
  process.once('SIGINT', onSignal)
  const stepper = new Stepper(cli, flags)
  const progress = new Progress(cli.stderr)
  try {
    for (;;) {
      const isStepped = await stepper.step()
      const view = await getBulk(holdfast, id)
      if (isOver(view) || interrupt.signal.aborted) return view
      if (flags.json !== true) progress.update(view.matched, expectedOf(view))
      if (!isStepped) await sleep(POLL_MS, undefined, { signal: interrupt.signal }).catch(() => {})
    }
  } finally {
    progress.end()
    process.off('SIGINT', onSignal)
    await stepper.close()
  }
}

/** A bulk action; raises `bulk_not_found`. */
export async function getBulk(holdfast: Holdfast, id: string): Promise<BulkView> {
  const view = await holdfast.getBulk(id)
  if (view !== null) return view
  throw new HoldfastError('bulk_not_found', `there is no bulk action ${id}`, { details: { id } })
}

/** Does batches of bulk actions. If it cannot, the upkeep of other processes does them. */
class Stepper {
  readonly #cli: Cli
  readonly #flags: StoreFlags
  #store: Promise<Store> | null = null
  #isOff: boolean

  constructor(cli: Cli, flags: StoreFlags) {
    this.#cli = cli
    this.#flags = flags
    this.#isOff = !/^(embedded|postgres(ql)?):/.test(chooseStore(flags).url)
  }

  /** True when a batch was done. */
  async step(): Promise<boolean> {
    if (this.#isOff) return false
    try {
      this.#store ??= this.#open()
      return (await (await this.#store).stepBulk()) !== null
    } catch (error) {
      if (!isHoldfastError(error)) throw error
      this.#isOff = true
      this.#cli.stderr.line(`this command cannot do batches itself and waits for other processes: ${error.message}`)
      return false
    }
  }

  async #open(): Promise<Store> {
    const { postgresStore } = await import('../stores/postgres/index.js')
    const { schema } = this.#flags
    return postgresStore(chooseStore(this.#flags).url, given({ schema }))
  }

  async close(): Promise<void> {
    const store = await this.#store?.catch(() => null)
    await store?.close()
  }
}
