// How many schedules there may be, and the error of every store that has as many.

import { HoldfastError } from './errors.js'

/** The most schedules of one store: as many as a list of them shows. */
export const SCHEDULES_MAX = 10_000

/** `isOfOne` when it is the bound of one maker, and not of all together. */
export function tooManySchedules(schedule: string, max: number, isOfOne: boolean): HoldfastError {
  const bound = isOfOne ? `its maker has made ${max} schedules, the most they may` : `there may be ${max} schedules`
  return new HoldfastError(
    'too_many_schedules',
    `schedule "${schedule}" cannot be made: ${bound}; remove some with unschedule(), or let one schedule do the work of several`,
    { details: { schedule, max } },
  )
}
