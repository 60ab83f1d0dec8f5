// One of the processes that drain a backlog. It reports how many jobs it has handled, and what it cost.

import { connect, defineJob } from '../../../src/index.js'
import type { Handled, Stopped } from '../drainer.js'
import { leaveParent, readAssignment, receiveFromParent, sendToParent } from '../parent.js'
import { FLOW_QUEUE } from './loads.js'

export interface FlowDrainAssignment {
  readonly postgresUrl: string
  readonly slots: number
}

const REPORT_MS = 5

async function main({ postgresUrl, slots }: FlowDrainAssignment): Promise<void> {
  const client = await connect(postgresUrl)
  const noop = defineJob<object>('noop', { queue: FLOW_QUEUE })
  let handled = 0
  let reported = 0
  const handler = noop.handle(() => {
    handled++
  })
  const worker = client.worker({ queues: [FLOW_QUEUE], concurrency: slots, handlers: [handler] })
  const [start, stop, close] = ['start', 'stop', 'close'].map((kind) => receiveFromParent(kind))
  sendToParent({ kind: 'ready' })
  await start
  const before = process.cpuUsage()
  await worker.start()
  const timer = setInterval(() => {
    if (handled === reported) return
    reported = handled
    sendToParent<Handled>({ kind: 'handled', handled })
  }, REPORT_MS)
  await stop
  clearInterval(timer)
  await worker.stop()
  const { user, system } = process.cpuUsage(before)
  sendToParent<Stopped>({ kind: 'stopped', handled, nodeCpuUs: user + system })
  // The server's processes are there until their time has been read.
  await close
  await client.close()
  leaveParent()
}

await main(readAssignment<FlowDrainAssignment>())
