// Which jobs a call is about: a filter in text or structured, or a few plain options that stand for one.

import { checkChoice, checkName, checkText, TAG_LENGTH_MAX } from '../core/check.js'
import { invalidOption } from '../core/errors.js'
import { readFilter } from '../core/filter.js'
import { checkGroup } from '../core/flow/resolve.js'
import type { JobFilter } from '../core/job-filter.js'
import { JOB_STATES, type JobState } from '../core/states.js'

/** What jobs are narrowed to. Options that are absent match everything, all that are given must match. */
export interface FilterOptions {
  readonly state?: JobState
  readonly queue?: string
  readonly type?: string
  readonly tag?: string
  /** The whole name of a group; with `queue` that of one queue alone. */
  readonly group?: string
  /** For everything else: text such as 'state:dead queue:mail_* created:<1h', or its structured form. */
  readonly filter?: string | JobFilter
}

export const FILTER_OPTIONS = ['state', 'queue', 'type', 'tag', 'group', 'filter'] as const

/** Checks the options and gives the filter they mean. Raises `invalid_option`, `invalid_name` or `invalid_filter`. */
export function resolveFilter(options: FilterOptions): JobFilter {
  const { state, queue, type, tag, group } = options
  const filter = options.filter === undefined ? {} : readFilter(options.filter)
  const plain: JobFilter = {
    ...(state === undefined ? {} : { states: [checkChoice('state', state, JOB_STATES)] }),
    ...(queue === undefined ? {} : { queues: [checkName('queue', queue)] }),
    ...(type === undefined ? {} : { types: [checkName('type', type)] }),
    ...(group === undefined ? {} : { groups: [checkGroup(group)] }),
  }
  for (const [option, field] of [
    ['state', 'states'],
    ['queue', 'queues'],
    ['type', 'types'],
    ['group', 'groups'],
  ] as const) {
    if (plain[field] === undefined || filter[field] === undefined) continue
    throw invalidOption(`${option} is given beside a filter that names one: put both into the filter`)
  }
  if (tag === undefined) return { ...filter, ...plain }
  return { ...filter, ...plain, tags: [...(filter.tags ?? []), [checkText('tag', tag, TAG_LENGTH_MAX)]] }
}
