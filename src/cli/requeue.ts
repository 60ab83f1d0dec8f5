// What `jobs requeue` and `dlq replay` do.

import type { Act } from './act-on-jobs.js'

export const REQUEUE: Act = {
  action: 'requeue',
  past: 'requeued',
  only: { states: ['dead'] },
  one: async (holdfast, id, by) => ({ result: 'requeued', requeues: (await holdfast.requeue(id, by)).requeues }),
}
