// A worker with metrics, to start from: replace the jobs by yours.
import { setTimeout as sleep } from 'node:timers/promises'
import { connect, defineJob } from 'holdfast'
import { createMetrics, serveMetrics } from 'holdfast/metrics'

const greet = defineJob('greet')

const holdfast = await connect()
const metrics = createMetrics(holdfast)
// Every address, because Prometheus comes from another container; nothing outside of them reaches it.
await serveMetrics(metrics, { host: '0.0.0.0', port: 9464 })

const worker = holdfast.worker({
  concurrency: 64,
  handlers: [greet.handle(async (_payload, { signal }) => sleep(100, 'hello', { signal }))],
})
await worker.start()

for (const signal of ['SIGTERM', 'SIGINT']) {
  process.once(signal, async () => {
    await holdfast.close()
    process.exit(0)
  })
}
