// One contender, one measure, one process, so that nothing of an earlier measurement is left in memory.

import type { Message } from './children.js'
import type { Servers } from './contender.js'
import { CONTENDERS, VARIANTS } from './contenders/all.js'
import { MEASURES, type Measured, type Scale } from './measures.js'
import { leaveParent, readAssignment, sendToParent } from './parent.js'

export interface Assignment {
  readonly contender: string
  readonly measure: string
  readonly servers: Servers
  readonly scale: Scale
}

export interface Report extends Measured, Message {
  readonly kind: 'report'
  /** Processor time in Node of all processes that took part, in microseconds. */
  readonly nodeCpuUs: number
}

async function main({ contender: name, measure: measureName, servers, scale }: Assignment): Promise<void> {
  const module = (CONTENDERS[name] ?? VARIANTS[name])!
  const measure = MEASURES[measureName]!
  const contender = await module.open(servers, measure.feature)
  const before = process.cpuUsage()
  const measured = await measure.run({ contender, name, servers, scale })
  const { user, system } = process.cpuUsage(before)
  sendToParent<Report>({ kind: 'report', ...measured, nodeCpuUs: user + system + (measured.othersCpuUs ?? 0) })
  await contender.close()
  leaveParent()
}

await main(readAssignment<Assignment>())
