// Gathers jobs of a batch handler and calls it for many together. Each job keeps its own slot, lease and settlement. ◄── worker.ts

import type { BatchFunction, BatchJob, Handler, HandlerFunction, JobContext } from '../core/definition.js'
import { HoldfastError, show } from '../core/errors.js'
import type { Ports, Timer } from '../core/ports.js'

/** One job that waits for the others of its batch. */
interface Call {
  readonly job: BatchJob<unknown>
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

function gathered(handler: Handler, { timers }: Ports): Handler {
  const { batch } = handler
  if (batch === undefined) return handler
  const { max, lingerMs, sameGroup, run } = batch
  const gatherings = new Map<string | null, Gathering>()

  const flush = (key: string | null) => {
    const gathering = gatherings.get(key)
    gatherings.delete(key)
    gathering?.timer.cancel()
    if (gathering !== undefined) void runBatch(run, gathering.calls)
  }
  const gather: HandlerFunction<unknown> = (payload, ctx) =>
    new Promise((resolve, reject) => {
      const call: Call = { job: { payload, ctx }, resolve, reject }
      // A job that may have taken its worker down must not take others with it.
      if ((ctx as JobContext & { readonly isSuspect?: boolean }).isSuspect === true) {
        void runBatch(run, [call])
        return
      }
      const key = sameGroup ? ctx.group : null
      const gathering = gatherings.get(key) ?? { calls: [], timer: timers.after(lingerMs, () => flush(key)) }
      gatherings.set(key, gathering)
      gathering.calls.push(call)
      if (gathering.calls.length >= max) flush(key)
    })
  return { ...handler, run: gather as HandlerFunction<never> }
}

/** Calls the handler for the jobs that still want to run, and ends each with its part of the answer. */
async function runBatch(run: BatchFunction<never>, calls: readonly Call[]): Promise<void> {
  for (const { job, reject } of calls) if (job.ctx.signal.aborted) reject(job.ctx.signal.reason)
  const open = calls.filter(({ job }) => !job.ctx.signal.aborted)
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
