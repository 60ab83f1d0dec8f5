// The handlers of a fleet: the generated kinds, plain jobs of seeded backlogs, and timed ones that report how late they are.

import { defineJob } from '../../src/client/define-job.js'
import type { Handler, JobContext, JobDefinition } from '../../src/core/definition.js'
import { generatedHandlers, wait } from '../gen/handlers.js'
import { callHandler } from './dependency-call.js'
import type { Effects } from './effects.js'
import type { FleetAssignment } from './fleet-child.js'
import { Histogram } from './histogram.js'
import type { RecordFile } from './records.js'

export interface TimedPayload {
  /** When it is due. Producers and workers of an experiment share a machine and so a clock. */
  readonly dueMs: number
}

/** The job that runs at a time. */
export const timed: JobDefinition<TimedPayload, TimedPayload> = defineJob<TimedPayload>('timed')

export interface HandlersDeps {
  readonly assignment: Pick<FleetAssignment, 'plainMs' | 'types' | 'dependencyUrl'>
  readonly record: RecordFile | null
  readonly effects: Effects | null
  /** Whether the dependency of the flapping jobs is down. */
  readonly dependency: { readonly isDown: boolean }
}

/** All handlers of a fleet, and how late timed jobs began. */
export function fleetHandlers(deps: HandlersDeps): { readonly handlers: readonly Handler[]; readonly late: Histogram } {
  const { assignment, effects, dependency, record } = deps
  const late = new Histogram()
  const [fromMs, toMs] = assignment.plainMs
  const plain = ['noop', ...assignment.types].map((type) =>
    defineJob<{ readonly ms?: number }>(type).handle(({ ms }, { signal }) => {
      if (toMs === 0 && ms === undefined) return undefined
      return wait(ms ?? fromMs + Math.random() * (toMs - fromMs), signal)
    }),
  )
  const calls = assignment.dependencyUrl === null ? [] : [callHandler(assignment.dependencyUrl)]
  const timedHandler = timed.handle(({ dueMs }) => {
    late.add(Math.max(0, Date.now() - dueMs))
  })
  const generated = generatedHandlers(
    {},
    {
      isDown: () => dependency.isDown,
      ...(effects === null ? {} : { apply: (payload, ctx) => effects.apply(payload, ctx) }),
    },
  )
  const handlers = [...generated, ...plain, ...calls, timedHandler]
  return { handlers: record === null ? handlers : handlers.map((handler) => recorded(handler, record)), late }
}

/** The same handler, with each run recorded. */
function recorded(handler: Handler, record: RecordFile): Handler {
  const run = async (payload: never, ctx: JobContext): Promise<unknown> => {
    const { id, fence, attempt } = ctx
    const note = (mark: 'began' | 'ended', word: string) =>
      record.run({ mark, id, fence, attempt, word, atMs: Date.now() })
    note('began', ctx.type)
    try {
      const result = await handler.run(payload, ctx)
      note('ended', 'done')
      return result
    } catch (error) {
      note('ended', 'failed')
      throw error
    }
  }
  return { definition: handler.definition, run }
}
