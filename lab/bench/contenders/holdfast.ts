// Holdfast as a user would run it: group commit for single enqueues, one worker in the process.

import { connect, defineJob } from '../../../src/index.js'
import { VERSION } from '../../../src/version.js'
import type { Contender, ContenderModule } from '../contender.js'

export const holdfast: ContenderModule = {
  note: {
    name: 'holdfast',
    store: 'postgres',
    version: VERSION,
    settings: 'defaults; worker: 64 slots, prefetch 1,000',
    lacks: '–',
  },
  async open({ postgresUrl }): Promise<Contender> {
    const client = await connect(postgresUrl)
    const noop = defineJob<object>('noop')
    return {
      async enqueueOne(payload) {
        await client.enqueue(noop, payload)
      },
      async enqueueMany(payloads) {
        await client.enqueueMany(noop, payloads)
      },
      async startWorker(onJob) {
        const worker = client.worker({ concurrency: 64, prefetch: 1_000, handlers: [noop.handle(onJob)] })
        await worker.start()
        return () => worker.stop()
      },
      close: () => client.close(),
    }
  },
}
