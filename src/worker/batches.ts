// Gathers jobs of a batch handler and calls it for many together. Each job keeps its own slot, lease and settlement. ◄── worker.ts

import type { BatchFunction, BatchJob, Handler, HandlerFunction, JobContext } from '../core/definition.js'
import { HoldfastError, show } from '../core/errors.js'
import type { ClaimBatch } from '../core/flow/contract.js'
import type { Ports, Timer } from '../core/ports.js'
import type { Isolation } from './isolation.js'

/** What the worker's own contexts know beside what handlers are shown. */
interface BatchContext extends JobContext {
  /** Whether the job was lost with a worker before. */
  readonly isSuspect?: boolean
  /** How many jobs of its group were claimed with it as one batch, if it was. */
  readonly batch?: number | undefined
  /** When the claim that brought it was sent, monotonic. */
  readonly claimSentMs?: number
  /** Its place in the order in which this worker was given its jobs. */
  readonly order?: number
}

/** One job that waits for the others of its batch. */
interface Call {
  readonly job: BatchJob<unknown> & { readonly ctx: BatchContext }
  readonly resolve: (result: unknown) => void
  readonly reject: (error: unknown) => void
}

interface Gathering {
  readonly calls: Call[]
  readonly timer: Timer
}

/** The handlers a worker runs: those of batches gather the jobs of this worker. */
export function withBatches(handlers: ReadonlyMap<string, Handler>, ports: Ports): ReadonlyMap<string, Handler> {
  return new Map([...handlers].map(([type, handler]) => [type, gathered(handler, ports)]))
}

/** The types of which a claim may take several jobs of a group that runs one at a time. Not those that run in children: nothing gathers there,
 *  so that they would run side by side. */
export function groupBatches(
  handlers: ReadonlyMap<string, Handler>,
  isolation: Pick<Isolation, 'isolates'> | null,
): readonly ClaimBatch[] {
  return [...handlers].flatMap(([type, { batch }]) => {
    const isGathered = batch?.sameGroup === true && isolation?.isolates(type) !== true
    return isGathered && batch.max > 1 ? [{ type, max: batch.max }] : []
  })
}

function gathered(handler: Handler, { timers }: Ports): Handler {
  const { batch } = handler
  if (batch === undefined) return handler
  const { max, lingerMs, sameGroup, run } = batch
  const gatherings = new Map<string | null, Gathering>()
  const turns = new Map<string | null, Promise<void>>()

  // A group that runs one job at a time gave these as one batch. Some of it may come late, from a slow schema or for want of a slot: that
  // part follows the first, and does not run beside it.
  const runInTurn = (key: string | null, calls: readonly Call[]) => {
    const before = turns.get(key)
    const turn = before === undefined ? runBatch(run, calls) : before.then(() => runBatch(run, calls))
    turns.set(key, turn)
    void turn.then(() => turns.get(key) === turn && turns.delete(key))
  }
  const flush = (key: string | null) => {
    const { calls, timer } = gatherings.get(key)!
    gatherings.delete(key)
    timer.cancel()
    if (calls.some(({ job }) => job.ctx.batch !== undefined)) runInTurn(key, calls)
    else void runBatch(run, calls)
  }
  const gather: HandlerFunction<unknown> = (payload, ctx: BatchContext) =>
    new Promise((resolve, reject) => {
      const call: Call = { job: { payload, ctx }, resolve, reject }
      // A job that may have taken its worker down must not take others with it.
      if (ctx.isSuspect === true) {
        void runBatch(run, [call])
        return
      }
      const key = sameGroup ? keyOf(ctx) : null
      const gathering = gatherings.get(key) ?? { calls: [], timer: timers.after(lingerMs, () => flush(key)) }
      gatherings.set(key, gathering)
      gathering.calls.push(call)
      // Nothing more of a group comes that gave a batch.
      if (gathering.calls.length >= Math.min(max, ctx.batch ?? max)) flush(key)
    })
  return { ...handler, run: gather as HandlerFunction<never> }
}

/** Jobs with one key may be of one batch. One that the store gave as a batch is mixed with no other, and waits for no call of an earlier claim,
 *  whose handler may hang although its jobs were given up. */
function keyOf({ queue, group, batch, claimSentMs }: BatchContext): string | null {
  if (group === null) return null
  return batch === undefined ? `${queue} ${group}` : `${queue} ${claimSentMs} ${group}`
}

/** Calls the handler for the jobs that still want to run, and ends each with its part of the answer. */
async function runBatch(run: BatchFunction<never>, calls: readonly Call[]): Promise<void> {
  for (const { job, reject } of calls) if (job.ctx.signal.aborted) reject(job.ctx.signal.reason)
  // An asynchronous schema may have finished with them in another order, and jobs of an ordered group must keep theirs.
  const open = calls.filter(({ job }) => !job.ctx.signal.aborted).sort((one, other) => orderOf(one) - orderOf(other))
  if (open.length === 0) return
  try {
    const results = await answersOf(
      run,
      open.map(({ job }) => job),
    )
    for (const [index, { resolve, reject }] of open.entries()) {
      const result = results[index]
      if (result instanceof Error) reject(result)
      else resolve(result)
    }
  } catch (error) {
    for (const { reject } of open) reject(error)
  }
}

function orderOf({ job: { ctx } }: Call): number {
  return ctx.order ?? 0
}

/** What a batch handler answers, one for each job. Raises when it is something else. */
async function answersOf(run: BatchFunction<never>, jobs: readonly BatchJob<unknown>[]): Promise<readonly unknown[]> {
  const results: unknown = await run(jobs as readonly BatchJob<never>[])
  if (Array.isArray(results) && results.length === jobs.length) return results
  const got = Array.isArray(results) ? `${results.length} results` : show(results)
  throw new HoldfastError(
    'invalid_option',
    `a batch handler must answer with an array of one result or error for each of its ${jobs.length} jobs, got ${got}`,
  )
}
