// A thread of a campaign: runs the seeds it is given, one range after the other, and answers with their sums.

import { parentPort } from 'node:worker_threads'
import { runSeeds } from './run-seeds.js'

/** A range of seeds. */
export interface SeedRange {
  readonly from: number
  readonly count: number
}

// The stacks of simulated errors are never read, and taking them is a large part of an error's cost.
Error.stackTraceLimit = 0

parentPort?.on('message', async (range: SeedRange) => {
  parentPort?.postMessage(await runSeeds(range))
})
