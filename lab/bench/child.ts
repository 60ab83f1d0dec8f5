// One contender, one measure, one process: nothing of an earlier measurement is left in its memory.

import type { Servers } from './contender.js'
import { CONTENDERS } from './contenders/all.js'
import { MEASURES, type Measured, type Scale } from './measures.js'

export interface Assignment {
  readonly contender: string
  readonly measure: string
  readonly servers: Servers
  readonly scale: Scale
}

export interface Report extends Measured {
  readonly nodeCpuUs: number
}

async function main(assignment: Assignment): Promise<void> {
  const contender = await CONTENDERS[assignment.contender]!.open(assignment.servers)
  const before = process.cpuUsage()
  const measured = await MEASURES[assignment.measure]!(contender, assignment.scale)
  const { user, system } = process.cpuUsage(before)
  process.send!({ ...measured, nodeCpuUs: user + system } satisfies Report)
  await contender.close()
  process.disconnect()
}

await main(JSON.parse(process.argv[2]!) as Assignment)
