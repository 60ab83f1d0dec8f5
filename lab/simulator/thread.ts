// A thread of a campaign: runs the seeds it is given, one range after the other, and answers with their sums.

import { parentPort } from 'node:worker_threads'
import { runSeeds } from './run-seeds.js'

/** A range of seeds. */
export interface SeedRange {
  readonly from: number
  readonly count: number
}

// Nobody reads the stacks of simulated errors, and taking them is a good part of the cost of an error.
Error.stackTraceLimit = 0

parentPort?.on('message', async (range: SeedRange) => {
  parentPort?.postMessage(await runSeeds(range))
})
