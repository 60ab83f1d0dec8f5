// A store with jobs in every state, so that a test knows what each page must show.

import { DropJob, defineJob, type Holdfast, type JobDefinition } from '../../src/index.js'
import type { Worker } from '../../src/worker/worker.js'
import { until } from './desk.js'

export interface KnownJobs {
  readonly worker: Worker
  /** The id of one job for each state. */
  readonly ids: Readonly<
    Record<'running' | 'ready' | 'dead' | 'retrying' | 'blocked' | 'scheduled' | 'succeeded', string>
  >
  /** Why the running job was asked to stop, once it was. */
  readonly stopped: { reason: string | null }
}

const sendEmail = defineJob('send_email', { queue: 'email' })
const chargeCard = defineJob('charge_card', { queue: 'billing' })
/** Fails always, at its one attempt. */
export const deliverWebhook: JobDefinition = defineJob('deliver_webhook', { queue: 'webhooks', maxAttempts: 1 })
const syncStock = defineJob('sync_stock', {
  queue: 'stock',
  maxAttempts: 5,
  retry: { backoff: 'fixed', base: '1h', jitter: false },
})
const importOrders = defineJob('import_orders', { queue: 'imports' })

/** 6 ready (4 of them unserved, 2 paused), 1 running, 1 retrying, 2 scheduled, 1 blocked, 5 dead in 2 groups, 3 succeeded. */
export async function fillStore(holdfast: Holdfast): Promise<KnownJobs> {
  const stopped: KnownJobs['stopped'] = { reason: null }
  const worker = startWorker(holdfast, stopped)
  const running = await holdfast.enqueue(importOrders, { file: 'orders.csv' }, { tags: ['eu'] })
  const succeeded = await enqueueTimes(3, (n) => holdfast.enqueue(sendEmail, { to: `ada${n}@example.com`, n }))
  const dropped = await enqueueTimes(3, (n) =>
    holdfast.enqueue(chargeCard, { card: 'x', last4: `400${n}` }, { tags: ['eu'] }),
  )
  const failed = await enqueueTimes(2, (n) => holdfast.enqueue(deliverWebhook, { n }, { tags: ['us'] }))
  const retrying = await holdfast.enqueue(syncStock, { shop: 'eu' }, { idempotencyKey: 'stock:eu' })
  const ready = await enqueueTimes(4, (n) =>
    holdfast.enqueue('build_export', { customer: { id: 40 + n } }, { queue: 'exports' }),
  )
  const blocked = await holdfast.enqueue('send_export', null, { queue: 'exports', after: ready[0]! })
  const scheduled = await enqueueTimes(2, () =>
    holdfast.enqueue('weekly_report', null, { queue: 'reports', delay: '2h' }),
  )
  await holdfast.pause('reports')
  await enqueueTimes(2, () => holdfast.enqueue('adhoc_report', null, { queue: 'reports', priority: 7 }))
  // Days and hours from now: a tick while the pages are looked at would be one job more than they are to show.
  const now = new Date()
  await holdfast.schedule('weekly-report', {
    cron: `0 3 * * ${(now.getUTCDay() + 3) % 7}`,
    zone: 'Europe/Berlin',
    job: 'weekly_report',
    queue: 'reports',
  })
  const hour = (now.getUTCHours() + 6) % 24
  await holdfast.schedule('sync-stock', { cron: `*/10 ${hour} * * *`, job: 'adhoc_report', queue: 'reports' })
  await worker.start()
  const isIn = async (id: string, state: string) => (await holdfast.get(id))?.state === state
  for (const id of succeeded) await until(() => isIn(id, 'succeeded'))
  for (const id of [...dropped, ...failed]) await until(() => isIn(id, 'dead'))
  await until(() => isIn(retrying.id, 'retrying'))
  await until(async () => (await holdfast.get(running.id))?.logs.length === 2)
  const ids = {
    running: running.id,
    ready: ready[3]!,
    dead: dropped[0]!,
    retrying: retrying.id,
    blocked: blocked.id,
    scheduled: scheduled[0]!,
    succeeded: succeeded[0]!,
  }
  return { worker, ids, stopped }
}

function startWorker(holdfast: Holdfast, stopped: KnownJobs['stopped']): Worker {
  return holdfast.worker({
    name: 'worker-a',
    queues: ['imports', 'email', 'billing', 'webhooks', 'stock'],
    concurrency: 8,
    // The import ends only when the test ends it.
    drain: 0,
    handlers: [
      sendEmail.handle(async (payload) => ({ messageId: `m-${(payload as { n: number }).n}` })),
      chargeCard.handle(async (payload) => {
        throw new DropJob(`card ending ${(payload as { last4: string }).last4} was declined`)
      }),
      deliverWebhook.handle(async (payload) => {
        throw new Error(`connect ECONNREFUSED 10.2.0.${(payload as { n: number }).n}:443`)
      }),
      syncStock.handle(async () => {
        throw new Error('the warehouse does not answer')
      }),
      importOrders.handle(async (_, ctx) => {
        ctx.progress({ done: 3, total: 12 })
        ctx.log('row 1: read')
        ctx.log('row 2: read')
        await new Promise((resolve) => ctx.signal.addEventListener('abort', resolve))
        stopped.reason = String(ctx.signal.reason?.code ?? ctx.signal.reason)
        throw ctx.signal.reason
      }),
    ],
  })
}

async function enqueueTimes(
  count: number,
  enqueue: (n: number) => Promise<{ readonly id: string }>,
): Promise<readonly string[]> {
  const ids: string[] = []
  for (let n = 1; n <= count; n++) ids.push((await enqueue(n)).id)
  return ids
}
