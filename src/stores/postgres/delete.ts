// delete: removes jobs with everything that is known of them, in one transaction. One that waits is cancelled first, so that the jobs that
// come after it see how it ended. ◄── store.ts · next: delete-function.ts

import type { DeleteResult } from '../../core/operator-store.js'
import { isFinished, type JobState } from '../../core/states.js'
import { cancelWaiting } from './cancel.js'
import type { Database, Purpose, Send } from './database.js'
import { arrayOf, statement } from './statement.js'
import { statesOf } from './states.js'
import { unblockAfter } from './unblock.js'

const DELETE = statement(
  'delete_jobs',
  'SELECT gone::text FROM :schema.delete_jobs($1::timestamptz, $2::uuid[], $3) AS gone',
)

// How often a job is tried again that changed tables each time it was looked for.
const TRIES_MAX = 3

/** Deletes jobs; `onReady` receives the queues of jobs that may go on, after the commit. */
export async function deleteJobs(
  db: Database,
  ids: readonly string[],
  by: string,
  onReady: (queue: string) => void,
  purpose: Purpose = 'operate',
): Promise<readonly DeleteResult[]> {
  if (ids.length === 0) return []
  const queues = new Set<string>()
  const onQueue = (queue: string) => queues.add(queue)
  const results = await db.transaction(purpose, (send) => deleteThrough(db, send, ids, by, onQueue))
  for (const queue of queues) onReady(queue)
  return results
}

/** Deletes jobs inside a transaction; `onQueue` immediately receives each queue in which a job may go on when it commits. */
export async function deleteThrough(
  db: Database,
  send: Send,
  ids: readonly string[],
  by: string,
  onQueue: (queue: string) => void,
): Promise<readonly DeleteResult[]> {
  const deleted = new Set<string>()
  let states = await statesOf(send, ids)
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    const open = ids.filter((id) => !deleted.has(id) && canBeDeleted(states.get(id)))
    if (open.length === 0) break
    const waiting = open.filter((id) => !isFinished(states.get(id)!))
    if (waiting.length > 0) {
      const ended = await cancelWaiting(db, send, waiting, onQueue)
      await unblockAfter(db, send, ended, onQueue, true)
    }
    for (const [id] of await send(DELETE, [db.now(), arrayOf(open), by])) deleted.add(id!)
    // One that was missed has moved meanwhile: it was claimed, requeued, or became ready.
    states = await statesOf(send, ids)
  }
  return ids.map((id): DeleteResult => {
    if (deleted.has(id)) return { id, result: 'deleted' }
    const state = states.get(id)
    return state === undefined ? { id, result: 'missing' } : { id, result: 'refused', state }
  })
}

function canBeDeleted(state: JobState | undefined): boolean {
  return state !== undefined && state !== 'running'
}
