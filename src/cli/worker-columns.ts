// Workers as rows of a table.

import type { WorkerView } from '../core/job.js'
import { WORKER_LIVE_MS } from '../core/operating.js'
import { shortId } from './job-ids.js'
import type { Column } from './table.js'
import { whenText } from './times.js'

/** True when it was seen lately; one that was not is gone, or cannot reach the store. */
export function isLive({ seenAt }: WorkerView): boolean {
  return Date.now() - seenAt.getTime() <= WORKER_LIVE_MS
}

function stateOf(worker: WorkerView): string {
  if (!isLive(worker)) return 'silent'
  return worker.draining ? 'draining' : 'works'
}

export const WORKER_COLUMNS: readonly Column<WorkerView>[] = [
  { name: 'worker', text: ({ id }) => id, isLong: true },
  {
    name: 'state',
    text: stateOf,
    format: (worker) => (isLive(worker) ? (worker.draining ? 'yellow' : 'green') : 'red'),
  },
  { name: 'slots', text: ({ running, concurrency }) => `${running}/${concurrency}`, side: 'right' },
  { name: 'queues', text: ({ queues }) => queues.join(','), isLong: true },
  { name: 'seen', text: ({ seenAt }, look) => whenText(seenAt, look) },
  { name: 'started', isSpare: true, text: ({ startedAt }, look) => whenText(startedAt, look) },
  {
    name: 'jobs',
    text: ({ jobs }, { isShort }) =>
      jobs.map(({ id, type }) => `${type} ${isShort ? shortId(id) : id}`).join(',') || '-',
    isLong: true,
  },
  { name: 'host', text: ({ host }) => host, isExtra: true },
  { name: 'pid', text: ({ pid }) => String(pid), side: 'right', isExtra: true },
  { name: 'version', text: ({ version }) => version, isExtra: true },
  { name: 'types', text: ({ types }) => types?.join(',') ?? '(any)', isExtra: true },
]
