// The process of a hunt: runs seeds until one fails, and prints the result.

import { runSeeds } from './run-seeds.js'

Error.stackTraceLimit = 0

const result = await runSeeds({ from: 1, count: Number(process.argv[2]) }, { stopAtFirst: true })
process.stdout.write(`${JSON.stringify(result)}\n`)
