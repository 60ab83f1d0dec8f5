// What long jobs keep, which this store does not have yet. What asks for it is refused.

import { HoldfastError } from '../../core/errors.js'
import type { KeptStore } from '../../core/kept/contract.js'

function lacking(what: string): HoldfastError {
  return new HoldfastError(
    'unsupported',
    `${what}: the Redis store of this version keeps nothing for long jobs (steps, effects, signals, output); do the work in one piece, or connect to PostgreSQL`,
  )
}

/** The calls about what jobs keep. */
export const NO_KEPT: KeptStore = {
  recall: async ({ id }) => {
    throw lacking(`what job ${id} has kept cannot be read`)
  },
  keep: async ([first]) => {
    throw lacking(`nothing was kept with job ${first?.id}`)
  },
  doubtful: async () => ({ effects: [], next: null }),
  write: async ([first]) => {
    throw lacking(`no output was written for job ${first?.id}`)
  },
  read: async ({ id }) => {
    throw lacking(`there is no output of job ${id} to read`)
  },
  signal: async ({ id, name }) => {
    throw lacking(`the signal "${name}" was not sent to job ${id}`)
  },
}
