// Processor time of jobs with empty handlers, in one process: in the worker, in child processes or in threads.

import { readFileSync } from 'node:fs'
import { connect } from '../../../src/index.js'
import { leaveParent, readAssignment, sendToParent } from '../parent.js'
import { sum } from '../statistics.js'
import type { CostAssignment, CostReport } from './cost.js'
import { empty, emptyInThread, handlers } from './jobs.js'

// Linux counts processor time in hundredths of a second.
const TICK_US = 10_000
const CONCURRENCY = 64

async function measure({ place, jobs, payloadBytes }: CostAssignment): Promise<void> {
  const definition = place === 'two threads' ? emptyInThread : empty
  const holdfast = await connect('memory:')
  // What a child has used when it is ready is its start, which is no part of a job.
  const startUs = new Map<number, number>()
  const settled = new Promise<void>((resolve) => {
    let left = jobs
    holdfast.on((event) => {
      if (event.name === 'child.started' && event.pid !== null) startUs.set(event.pid, cpuUsOf(event.pid))
      if (event.name === 'job.settled' && --left === 0) resolve()
    })
  })
  const payload = { text: 'x'.repeat(payloadBytes) }
  for (let done = 0; done < jobs; done += 1_000) {
    await holdfast.enqueueMany(
      definition,
      Array.from({ length: Math.min(1_000, jobs - done) }, () => payload),
    )
  }
  const processes = place === 'in the worker' ? {} : { processes: 2, module: new URL('./jobs.js', import.meta.url) }
  const chosen = handlers.filter((handler) => handler.definition.type === definition.type)
  const worker = holdfast.worker({ handlers: chosen, concurrency: CONCURRENCY, ...processes })
  await worker.start()
  const before = process.cpuUsage()
  const beganMs = performance.now()
  await settled
  const tookS = (performance.now() - beganMs) / 1_000
  const { user, system } = process.cpuUsage(before)
  const childrenUs = sum([...startUs].map(([pid, us]) => cpuUsOf(pid) - us))
  const [workerUs, jobsPerS] = [(user + system) / jobs, jobs / tookS]
  sendToParent<CostReport>({ kind: 'cost', workerUs, childrenUs: childrenUs / jobs, jobsPerS })
  await holdfast.close()
  leaveParent()
}

/** The processor time of a process since its start. */
function cpuUsOf(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[11]) + Number(fields[12])) * TICK_US
}

await measure(readAssignment<CostAssignment>())
