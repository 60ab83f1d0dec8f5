// The process of a hunt: runs seeds until one fails, and prints the result.

import type { Aim } from './plan.js'
import { runSeeds } from './run-seeds.js'

Error.stackTraceLimit = 0

const [, , count, aim] = process.argv
const result = await runSeeds({ from: 1, count: Number(count) }, { stopAtFirst: true, aim: (aim as Aim) ?? null })
process.stdout.write(`${JSON.stringify(result)}\n`)
