// The worker, a process beside `next start`: node worker.js, or holdfast worker ./worker.js with `handlers` exported.

import { connect } from 'holdfast'
import { shipOrder } from './lib/jobs'

const holdfast = await connect(process.env.HOLDFAST_URL)
const worker = holdfast.worker({
  queues: ['orders'],
  handlers: [shipOrder.handle(async ({ count }) => ({ parcels: Math.ceil(count / 10) }))],
})
await worker.start()
console.log('ready')

for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => holdfast.close())
