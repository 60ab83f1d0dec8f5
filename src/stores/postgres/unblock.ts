// Jobs that come after others: moved on when their parents have finished.
//
// No child is missed, because two looks are certain: one at its parents after the transaction that wrote it has committed, and one at the
// children of each job after the transaction that ended it has. Whichever of the two commits last, the look behind it sees both. Each
// look is announced by a row in link_checks, written in the transaction itself, and the process that looks removes it: the one that wrote it,
// right after its commit, or promote, when that process died or when the transaction was a caller's own, whose commit nobody sees.
// A settlement does not announce a look at children it cannot see: a child may be committed while the statement runs. So its
// process looks a moment later once more (late-looks.ts). If it dies within that moment, the child is found by its own second look:
// while it is blocked its row stays in link_checks, and promote looks again 15 s after the first time, when every settlement that ran
// beside that has ended. A server that was frozen for longer in the middle of one leaves the child to the sweep in promote.

import type { JobState } from '../../core/states.js'
import type { Database, Send } from './database.js'
import { arrayOf, statement } from './statement.js'

const UNBLOCK = statement(
  'unblock',
  'SELECT job, became, in_queue FROM :schema.unblock($1::timestamptz, $2::uuid[], $3::uuid[])',
)

// The children of all of them in the order of their ids, a page at a time: each parent has the page's next ones ready in its index.
const CHILDREN = statement(
  'children',
  `
SELECT DISTINCT link.child::text
  FROM unnest($1::uuid[]) AS asked (id)
 CROSS JOIN LATERAL (
   SELECT parents.child
     FROM :schema.parents
    WHERE parents.parent = asked.id AND parents.child > $2::uuid
    ORDER BY parents.child
    LIMIT $3
 ) AS link
 ORDER BY 1
 LIMIT $3`,
)

// A chain that is cancelled falls link by link; what is longer than this is left to promote.
const LINKS_MAX = 100
/** Children that are moved on by one statement. */
const PAGE = 1_000
/** The most pages of one look. */
const PAGES_MAX = 1_000
const FIRST = '00000000-0000-0000-0000-000000000000'

/** Called with the queue of each job that became ready. */
type OnReady = (queue: string) => void

/** Moves on those of the blocked jobs whose parents have finished, and what hangs on the ones cancelled by that. `checked` are the
 *  jobs whose announced look this is; null inside a transaction, because the look must come after it. Answers the states of all but
 *  those that somebody else has moved on. */
export async function unblock(
  db: Database,
  send: Send,
  blocked: readonly string[],
  checked: readonly string[] | null,
  onReady: OnReady,
): Promise<Map<string, JobState>> {
  const states = new Map<string, JobState>()
  let [asked, done] = [blocked, checked ?? []]
  for (let link = 0; link < LINKS_MAX && asked.length > 0; link++) {
    const moved = await send(UNBLOCK, [db.now(), arrayOf(asked), arrayOf(done)])
    const cancelled: string[] = []
    for (const [id, state, queue] of moved) {
      states.set(id!, state as JobState)
      if (state === 'cancelled') cancelled.push(id!)
      if (state === 'ready') onReady(queue!)
    }
    asked = cancelled.length > 0 ? await childrenOf(send, cancelled, FIRST) : []
    // A full page may not be all of them: the rest is announced, and promote's.
    done = asked.length < PAGE && checked !== null ? cancelled : []
  }
  return states
}

/** Moves on the children of jobs that have finished: the first page of them, and the rest when `isWhole`, which is otherwise left to
 *  promote. Called after the transaction that ended the jobs. Answers how many became ready. */
export async function unblockAfter(
  db: Database,
  send: Send,
  parents: readonly string[],
  onReady: OnReady,
  isWhole = false,
): Promise<number> {
  let ready = 0
  const onOneReady = (queue: string) => {
    ready++
    onReady(queue)
  }
  let [last, pages] = [FIRST, 0]
  for (let isEnd = parents.length === 0; !isEnd && pages < (isWhole ? PAGES_MAX : 1); pages++) {
    const page = await childrenOf(send, parents, last)
    isEnd = page.length < PAGE
    last = page.at(-1) ?? FIRST
    if (page.length > 0) await unblock(db, send, page, isEnd ? parents : [], onOneReady)
    else await send(UNBLOCK, [db.now(), arrayOf([]), arrayOf(parents)])
  }
  return ready
}

/** The look at the children of jobs that wait for them from now on, after the commit. What it moves on is ready. */
export async function unblockWaiting<Job extends { readonly id: string }>(
  db: Database,
  send: Send,
  states: Map<Job, JobState>,
  onReady: (queue: string) => void,
): Promise<void> {
  const waiting = [...states].filter(([, state]) => state === 'blocked').map(([job]) => job)
  if (waiting.length === 0) return
  const ids = waiting.map(({ id }) => id)
  const moved = await unblock(db, send, ids, ids, onReady)
  for (const job of waiting) states.set(job, moved.get(job.id) ?? 'blocked')
}

/** A page of the children of jobs, in order, behind the last one of the page before. */
export async function childrenOf(send: Send, parents: readonly string[], last: string = FIRST): Promise<string[]> {
  return (await send(CHILDREN, [arrayOf(parents), last, PAGE])).map(([child]) => child!)
}
