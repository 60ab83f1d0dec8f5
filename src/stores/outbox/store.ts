// A store on Redis with an outbox in PostgreSQL in front of it: what comes with a caller's transaction becomes a row of that, and everything
// else goes straight to Redis. ◄── index.ts · next: rows.ts

import { invalidOption } from '../../core/errors.js'
import type { Emit } from '../../core/events.js'
import { BATCH_MAX } from '../../core/job-store.js'
import type { Store } from '../../core/store.js'
import type { Database } from '../postgres/database.js'
import type { RedisStore } from '../redis/index.js'
import type { Bell } from './bell.js'
import { ClaimGuard } from './claim-guard.js'
import type { Completions } from './completions.js'
import { deleteEverywhere, deleteWith } from './deletes.js'
import type { Dispatcher } from './dispatcher.js'
import { Followed } from './followed.js'
import { healthOf } from './health.js'
import { cancelRows, findRows, type PartOf, viewOfRow, writeRows } from './rows.js'

interface OutboxParts {
  readonly store: RedisStore
  readonly db: Database
  readonly bell: Bell
  readonly dispatcher: Dispatcher
  readonly completions: Completions
  /** Where the events of the outbox go. */
  readonly reportTo: (emit: Emit) => void
}

/** Puts the outbox in front of the store. */
export function composeOutbox(parts: OutboxParts): Store {
  const { store, db, bell, dispatcher, completions } = parts
  const { epochOf: _, shardCount: __, shardOf: ___, aroundDeletes: ____, ...inner } = store
  const partOf: PartOf = ({ queue, id }) => inner.parts?.of(queue, id) ?? 0
  const followed = new Followed(db)
  let emit: Emit = () => {}
  store.aroundDeletes((ids, by, act) => deleteWith(db, store, { ids, by, act }))
  const guard = new ClaimGuard(store, completions, (event) => emit(event))
  return {
    ...inner,
    outbox: { dispatch: () => dispatcher.step(), listen: (onRows) => bell.listen(onRows) },
    reportTo(to) {
      emit = to
      parts.reportTo(to)
      inner.reportTo?.(to)
    },

    async enqueue(jobs, request = {}) {
      const { tx } = request
      if (tx === undefined) return inner.enqueue(jobs, request)
      checkCount('enqueue', jobs)
      const answers = await writeRows(db, tx, jobs, partOf)
      for (const { id } of jobs) followed.add(id)
      bell.afterTransaction()
      return answers
    },
    wake(queues) {
      inner.wake(queues)
      bell.now()
    },

    claim: (request) => guard.claim(() => inner.claim(request)),
    async settle(jobs, request = {}) {
      const { tx, onlyExpired = false } = request
      if (tx !== undefined) {
        checkCount('settle', jobs)
        const answers = await completions.write(store, tx, jobs)
        bell.afterTransaction()
        return answers
      }
      return completions.settle(store, jobs, onlyExpired)
    },
    watch: (leases) => completions.watch(store, leases),

    async get(id) {
      const found = await inner.get(id)
      if (found !== null) return found
      const [row] = await findRows(db, [id])
      if (row === undefined) return null
      followed.add(id)
      return viewOfRow(row)
    },
    async standing(id) {
      const found = await inner.standing(id)
      if (found !== null) return found
      const [row] = await findRows(db, [id])
      if (row === undefined) return null
      const nowMs = await inner.now()
      return {
        ...{ job: viewOfRow(row), outbox: row.outbox, nowMs },
        ...{ queuePaused: false, ahead: { count: 0, isExact: true }, parents: [], workers: [], keyHeldBy: null },
      }
    },
    async endings(ids) {
      const endings = await inner.endings(ids)
      return [...endings, ...(await followed.endings(ids, endings, (those) => inner.endings(those)))]
    },
    async cancel(ids, by) {
      const answers = await inner.cancel(ids, by)
      const missing = answers.flatMap(({ id, result }) => (result === 'missing' ? [id] : []))
      if (missing.length === 0) return answers
      const cancelled = await cancelRows(db, missing, by)
      // Some may have been sent while this waited for their rows.
      const rest = missing.filter((id) => !cancelled.has(id))
      const again = new Map(
        (rest.length === 0 ? [] : await inner.cancel(rest, by)).map((answer) => [answer.id, answer]),
      )
      return answers.map((answer) => {
        if (cancelled.has(answer.id)) return { id: answer.id, result: 'cancelled' }
        return again.get(answer.id) ?? answer
      })
    },
    async delete(ids, by) {
      checkCount('delete', ids)
      return deleteEverywhere(db, store, ids, by)
    },
    async requeue(ids, by) {
      await completions.revive(ids)
      return inner.requeue(ids, by)
    },

    async health() {
      const [health, outbox] = await Promise.all([inner.health(), healthOf(db)])
      return { ...health, outbox }
    },
    async close() {
      await bell.close()
      try {
        await inner.close()
      } finally {
        await db.close()
      }
    },
  }
}

function checkCount(call: string, list: readonly unknown[]): void {
  if (list.length > BATCH_MAX) throw invalidOption(`${call} takes at most ${BATCH_MAX} jobs`, list.length)
}
