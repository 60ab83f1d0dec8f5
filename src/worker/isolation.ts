// How a worker has handlers run outside of its own thread. src/host provides it; the worker itself knows nothing of processes.

import type { JobContext } from '../core/definition.js'
import type { ChildrenView } from '../core/views.js'
import type { HeldJob } from './held-job.js'
import type { KeeperPort } from './keeper.js'
import type { Verdict } from './outcome.js'

/** What a handler elsewhere is given by: its context here, and what a keeper there stands on. */
export interface RemoteContext extends JobContext {
  readonly keeping: KeeperPort
}

/** Runs handlers elsewhere. */
export interface Isolation {
  /** Whether handlers of this type run there. */
  isolates(type: string): boolean
  /** Gets ready; raises `module_failed` when no handler can run there. */
  start(): Promise<void>
  /** Runs the handler of a job and resolves with how it ended. Never rejects. Sets `held.remote` meanwhile. Calls `onLateStart` when the handler
   *  starts after a wait, during which no timeout may fire. */
  run(held: HeldJob, context: RemoteContext, onLateStart: () => void): Promise<RemoteEnd>
  /** The children it has, for those who look at workers. */
  readonly children: ChildrenView
  /** Ends everything it started. */
  stop(): Promise<void>
}

/** A handler that runs elsewhere, as the job that waits for it sees it. */
export interface RemoteRun {
  /** Notifies the handler that its job was aborted. */
  abort(): void
  /** Ends the handler by force. True when it was asked for: `run` resolves once nothing of the handler is left. False when that did not help. */
  kill(): boolean
}

/** How a handler that ran elsewhere ended: its result as JSON text, or what it threw, classified there. */
export class RemoteEnd {
  readonly result: string | null
  readonly verdict: (Verdict & { readonly isControl: boolean }) | null

  constructor(end: Pick<RemoteEnd, 'result' | 'verdict'>) {
    this.result = end.result
    this.verdict = end.verdict
  }
}
