// Random operations of flow control: limits, groups, breakers, and the settings of queues. Few names and small bounds, so that they bind.

import fc from 'fast-check'
import type { ReplaceRule } from '../../src/core/flow/carried.js'
import type { JobFlow } from '../../src/core/flow/job-flow.js'
import {
  type GroupOverride,
  type LimitSettings,
  NO_GROUP_SETTINGS,
  NO_LIMIT,
  NO_QUEUE_FLOW,
  type QueueFlow,
  type Rate,
} from '../../src/core/flow/settings.js'
import type { HoldOff, LimitOrigin, OutcomeReport } from '../../src/core/flow/views.js'

export type FlowOperation =
  | {
      readonly kind: 'setLimit'
      readonly name: string
      readonly settings: LimitSettings
      readonly origin: LimitOrigin
    }
  | { readonly kind: 'removeLimit'; readonly name: string }
  | { readonly kind: 'forceBreaker'; readonly name: string; readonly forced: 'open' | 'closed' | null }
  | { readonly kind: 'observe'; readonly reports: readonly OutcomeReport[] }
  /** Flow control of a queue; null takes it away. */
  | { readonly kind: 'setFlow'; readonly queue: string; readonly flow: QueueFlow | null }
  | {
      readonly kind: 'setGroup'
      readonly queue: string
      readonly group: string
      readonly override: GroupOverride | null
    }
  | { readonly kind: 'pauseGroup' | 'resumeGroup'; readonly queue: string; readonly group: string }
  | { readonly kind: 'groups'; readonly queue: string; readonly prefix: string; readonly limit: number }
  | { readonly kind: 'limits' }

export type FlowKind = FlowOperation['kind']

/** In the order of names, as an enqueue has them. `nobody` was never set. */
const LIMITS = ['api', 'mail'] as const
const GROUPS = ['a', 'b', 'ü "x",{}'] as const
const SECOND = 1_000
const MINUTE = 60 * SECOND

const group = fc.constantFrom(...GROUPS)
const limit = fc.constantFrom(...LIMITS)
const bound = fc.constantFrom(null, 1, 1, 2, 3)
const rate: fc.Arbitrary<Rate | null> = fc.constantFrom<(Rate | null)[]>(
  null,
  null,
  null,
  { limit: 2, perMs: SECOND, burst: 2, counts: 'starts' },
  { limit: 3, perMs: MINUTE, burst: 1, counts: 'starts' },
  { limit: 4, perMs: 2 * SECOND, burst: 4, counts: 'cost' },
)

/** What a job says about flow control. Most name no limit at all, or one. */
export const jobFlow: fc.Arbitrary<JobFlow> = fc.oneof(
  fc.record({ group, limits: fc.constant([]), cost: fc.constantFrom(1, 1, 3) }),
  fc.record({
    group: fc.option(group),
    limits: fc.oneof(
      { weight: 12, arbitrary: fc.constantFrom(['api'], ['mail'], ['api', 'mail'], ['api', 'type:send']) },
      { weight: 1, arbitrary: fc.constant(['nobody']) },
    ),
    cost: fc.constantFrom(1, 1, 3, 9),
  }),
)

export const replaceRule: fc.Arbitrary<ReplaceRule> = fc.record({
  waitMs: fc.constantFrom(0, 500, 5 * SECOND),
  maxWaitMs: fc.constantFrom(null, SECOND, 8 * SECOND),
})

export const holdOff: fc.Arbitrary<HoldOff> = fc.oneof(
  fc.record({ scope: fc.constantFrom('queue' as const, 'group' as const), afterMs: fc.constantFrom(500, 20 * SECOND) }),
  fc.record({ scope: fc.constant('limit' as const), limit, afterMs: fc.constantFrom(1, SECOND, 20 * SECOND) }),
)

export const spent: fc.Arbitrary<number> = fc.constantFrom(0, 1, 2, 12)

const breaker = { failures: 0.5, of: 2, withinMs: 10 * SECOND, cooldownMs: 2 * SECOND, probes: 1 }
const limitSettings: fc.Arbitrary<LimitSettings> = fc.oneof(
  { weight: 1, arbitrary: fc.constant(NO_LIMIT) },
  { weight: 4, arbitrary: fc.record({ ...fixed(NO_LIMIT), concurrency: bound, rate }) },
  {
    weight: 3,
    arbitrary: fc.record({
      ...fixed(NO_LIMIT),
      concurrency: fc.constantFrom(null, 2),
      breaker: fc.constantFrom(breaker, { ...breaker, of: 3, probes: 2 }),
    }),
  },
  { weight: 1, arbitrary: fc.constant({ ...NO_LIMIT, adaptive: { min: 1, max: 4 } }) },
)

const groups = fc.record({
  ...fixed(NO_GROUP_SETTINGS),
  concurrency: bound,
  rate,
  ordered: fc.constantFrom(false, false, true),
  onRetry: fc.constantFrom('wait' as const, 'pass' as const),
  onDead: fc.constantFrom('continue' as const, 'stop' as const),
  maxDepth: fc.constantFrom(null, null, null, 2),
})
const queueFlow: fc.Arbitrary<QueueFlow> = fc.record({
  ...fixed(NO_QUEUE_FLOW),
  groups,
  concurrency: fc.constantFrom(null, null, 1, 3),
  rate,
  // A store may let a little more through while a queue is far from its bound, and with a bound of one it never is.
  maxDepth: fc.constantFrom(null, null, null, null, 1),
})
const override: fc.Arbitrary<GroupOverride> = fc.record({
  concurrency: bound,
  rate,
  weight: fc.constantFrom(1, 1, 3),
})

/** Each field as the sample has it. */
function fixed<T extends object>(sample: T): { [Key in keyof T]: fc.Arbitrary<T[Key]> } {
  return Object.fromEntries(Object.entries(sample).map(([key, value]) => [key, fc.constant(value)])) as {
    [Key in keyof T]: fc.Arbitrary<T[Key]>
  }
}

/** Fields of each operation and how often it comes, beside the others. */
export const FLOW_FIELDS: Readonly<
  Record<FlowKind, (queue: fc.Arbitrary<string>) => { weight: number; fields: Record<string, fc.Arbitrary<unknown>> }>
> = {
  setLimit: () => ({
    weight: 8,
    fields: {
      name: fc.constantFrom(...LIMITS, ...LIMITS, 'type:send'),
      settings: limitSettings,
      origin: fc.constantFrom('operator', 'operator', 'operator', 'definition'),
    },
  }),
  removeLimit: () => ({ weight: 1, fields: { name: limit } }),
  forceBreaker: () => ({ weight: 2, fields: { name: limit, forced: fc.constantFrom(null, null, 'open', 'closed') } }),
  observe: () => ({
    weight: 6,
    fields: {
      reports: fc.array(
        fc.record({
          limit,
          ok: fc.nat(2),
          failed: fc.constantFrom(0, 0, 1, 2),
          overloaded: fc.constantFrom(0, 0, 1),
        }),
        { minLength: 1, maxLength: 2 },
      ),
    },
  }),
  setFlow: (queue) => ({ weight: 6, fields: { queue, flow: fc.option(queueFlow, { freq: 6 }) } }),
  setGroup: (queue) => ({ weight: 3, fields: { queue, group, override: fc.option(override, { freq: 3 }) } }),
  pauseGroup: (queue) => ({ weight: 2, fields: { queue, group } }),
  resumeGroup: (queue) => ({ weight: 4, fields: { queue, group } }),
  groups: (queue) => ({
    weight: 2,
    fields: { queue, prefix: fc.constantFrom('', '', 'a'), limit: fc.constantFrom(1, 100) },
  }),
  limits: () => ({ weight: 2, fields: {} }),
}

export const FLOW_KINDS: readonly FlowKind[] = Object.keys(FLOW_FIELDS) as FlowKind[]
