// What a definition and an enqueue say about flow control. ◄── define-job.ts, enqueue-options.ts, prepare.ts

import type { DefinitionFlow, JobDefinition } from '../core/definition.js'
import { HoldfastError } from '../core/errors.js'
import type { AdaptiveSettings } from '../core/flow/adaptive.js'
import { type JobFlow, typeLimitName } from '../core/flow/job-flow.js'
import { costOf, groupOf } from '../core/flow/of-payload.js'
import {
  type BreakerOptions,
  checkCost,
  checkGroup,
  checkLimitNames,
  type RateOption,
  resolveLimit,
} from '../core/flow/resolve.js'
import type { NewJob } from '../core/job.js'

/** What one job says about flow control. */
export interface FlowOptions {
  /** The tenant or entity it belongs to, 1 to 200 characters. Groups of a queue take turns, and `setQueue` bounds them. */
  readonly group?: string
  /** Names of the limits it counts in, at most 4. Each must have been set with `setLimit`. */
  readonly limits?: readonly string[]
  /** What its start takes from rates that count cost: tokens, bytes, cents. Default 1. `ctx.spent()` settles what it really was. */
  readonly cost?: number
}

export const FLOW_OPTIONS = ['group', 'limits', 'cost'] as const

/** What the jobs of one definition say about flow control. An enqueue's own `group`, `limits` and `cost` win. */
export interface DefinitionFlowOptions<Payload> {
  /** The group of its jobs, or the function that finds it in the payload; null for none. */
  readonly group?: string | ((payload: Payload) => string | null)
  /** As for an enqueue. */
  readonly limits?: readonly string[]
  readonly cost?: number | ((payload: Payload) => number)
  /** How many of its jobs run concurrently, over all queues and processes: the limit `type:<type>`. `worker.start()` writes it where no
   *  operator has set that limit. */
  readonly concurrency?: number | AdaptiveSettings
  /** How many of its jobs start in a time, of the same limit. */
  readonly rate?: RateOption
  /** The breaker of the same limit. */
  readonly breaker?: BreakerOptions
}

export const DEFINITION_FLOW_OPTIONS = ['group', 'limits', 'cost', 'concurrency', 'rate', 'breaker'] as const

/** Flow control of a definition; null when it says nothing about it. Raises `invalid_option` or `invalid_name`. */
export function resolveDefinitionFlow(type: string, options: DefinitionFlowOptions<never>): DefinitionFlow | null {
  if (DEFINITION_FLOW_OPTIONS.every((name) => options[name] === undefined)) return null
  const { group, limits, cost, concurrency, rate, breaker } = options
  const own = {
    ...(concurrency === undefined ? {} : { concurrency }),
    ...(rate === undefined ? {} : { rate }),
    ...(breaker === undefined ? {} : { breaker }),
  }
  const limit = typeLimitName(type)
  return {
    group:
      group === undefined ? null : typeof group === 'function' ? (group as DefinitionFlow['group']) : checkGroup(group),
    limits: limits === undefined ? [] : checkLimitNames(limits),
    cost: cost === undefined ? 1 : typeof cost === 'function' ? (cost as DefinitionFlow['cost']) : checkCost(cost),
    own: Object.keys(own).length === 0 ? null : { name: limit, settings: resolveLimit(limit, own) },
  }
}

/** Flow control of one job, or undefined for a plain one. */
export function resolveFlow(
  definition: Pick<JobDefinition, 'type' | 'flow'> | null,
  options: FlowOptions | undefined,
  payload: unknown,
): JobFlow | undefined {
  const terms = definition?.flow ?? null
  const { group, limits, cost } = options ?? NONE
  if (terms === null && group === undefined && limits === undefined && cost === undefined) return undefined
  const own = terms?.own === null || terms === null ? [] : [terms.own.name]
  const flow = {
    group: group === undefined ? groupOf(definition, payload) : checkGroup(group),
    limits: sorted([...own, ...(limits === undefined ? (terms?.limits ?? []) : checkLimitNames(limits))]),
    cost: cost === undefined ? costOf(definition, payload) : checkCost(cost),
  }
  const isPlain = flow.group === null && flow.limits.length === 0 && flow.cost === 1
  return isPlain ? undefined : flow
}

/** Adds what few jobs have. */
export function withFlow(
  job: NewJob,
  { replace, enqueuedBy, lifo }: Pick<NewJob, 'replace' | 'enqueuedBy' | 'lifo'>,
  flow: JobFlow | undefined,
): NewJob {
  if (flow === undefined && replace === undefined && enqueuedBy === undefined && lifo === undefined) return job
  if (lifo === true && flow !== undefined && flow.group !== null) throw lifoInGroup(job.type, flow.group)
  return {
    ...job,
    ...(flow === undefined ? {} : { flow }),
    ...(replace === undefined ? {} : { replace }),
    ...(enqueuedBy === undefined ? {} : { enqueuedBy }),
    ...(lifo === undefined ? {} : { lifo }),
  }
}

function lifoInGroup(type: string, group: string): HoldfastError {
  return new HoldfastError(
    'invalid_option',
    `a job of "${type}" is in group "${group}", whose jobs have an order of their own: leave out lifo or the group`,
  )
}

const NONE: FlowOptions = {}

function sorted(names: readonly string[]): readonly string[] {
  return names.length < 2 ? names : [...new Set(names)].sort()
}
