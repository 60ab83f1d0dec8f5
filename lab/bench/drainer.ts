// One of several processes that drain a backlog together. It reports how many jobs it has handled, so that its parent sees when
// all are done.

import type { Message } from './children.js'
import type { Servers } from './contender.js'
import { CONTENDERS } from './contenders/all.js'
import { leaveParent, readAssignment, receiveFromParent, sendToParent } from './parent.js'

export interface DrainerAssignment {
  readonly contender: string
  readonly servers: Servers
}

export interface Handled extends Message {
  readonly kind: 'handled'
  readonly handled: number
}

export interface Stopped extends Message {
  readonly kind: 'stopped'
  readonly handled: number
  readonly nodeCpuUs: number
}

// Short compared with the second or more that a drain takes, and long enough to cost nothing.
const REPORT_MS = 5

async function main({ contender: name, servers }: DrainerAssignment): Promise<void> {
  const contender = await CONTENDERS[name]!.open(servers, null)
  const [start, stop] = [receiveFromParent('start'), receiveFromParent('stop')]
  sendToParent({ kind: 'ready' })
  await start
  let handled = 0
  let reported = 0
  const before = process.cpuUsage()
  const stopWorker = await contender.startWorker(() => {
    handled++
  })
  const timer = setInterval(() => {
    if (handled === reported) return
    reported = handled
    sendToParent<Handled>({ kind: 'handled', handled })
  }, REPORT_MS)
  await stop
  clearInterval(timer)
  await stopWorker()
  const { user, system } = process.cpuUsage(before)
  sendToParent<Stopped>({ kind: 'stopped', handled, nodeCpuUs: user + system })
  await contender.close()
  leaveParent()
}

await main(readAssignment<DrainerAssignment>())
