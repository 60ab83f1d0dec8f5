// The audit log, API keys and health.

import type { NewApiKey } from '../../core/operating.js'
import type { Store } from '../../core/store.js'
import type { Facts } from './context.js'
import { MINUTE_MS, newId, newSchedule, OPERATOR, QUEUE, SECOND_MS, START_MS } from './samples.js'
import { codeOf, enqueueJob, jobIn } from './steps.js'

/** What the log says, newest first. */
async function linesOf(store: Store): Promise<unknown[]> {
  const { entries } = await store.audit({ before: null, limit: 200 })
  return entries.map(({ actor, action, job, target }) => [actor, action, job ?? target])
}

const audits: Facts = {
  'the log is empty at first': async ({ store, expect }) => {
    await enqueueJob(store)

    expect(await store.audit({ before: null, limit: 10 })).toEqual({ entries: [], next: null })
  },

  'old lines go when the log is pruned, young ones stay with their numbers': async ({ store, clock, expect }) => {
    await store.record({ actor: 'ada', action: 'first' })
    await store.record({ actor: 'ada', action: 'second' })
    await clock.advance(MINUTE_MS)
    await store.record({ actor: 'ada', action: 'third' })
    const [third] = (await store.audit({ before: null, limit: 1 })).entries

    const gone = await store.pruneAudit({ keptMs: SECOND_MS, linesMax: 1_000 })

    expect(gone).toBe(2)
    expect((await store.audit({ before: null, limit: 10 })).entries).toEqual([third])
    await clock.advance(MINUTE_MS)
    expect(await store.pruneAudit({ keptMs: SECOND_MS, linesMax: 1_000 })).toBe(1)
    await store.record({ actor: 'ada', action: 'fourth' })
    expect((await store.audit({ before: null, limit: 10 })).entries[0]!.line).toBeGreaterThan(third!.line)
  },

  'a log that is too long is pruned to its newest lines': async ({ store, expect }) => {
    for (const action of ['a', 'b', 'c', 'd']) await store.record({ actor: 'ada', action })

    expect(await store.pruneAudit({ keptMs: 1_000_000, linesMax: 2 })).toBe(2)
    expect((await store.audit({ before: null, limit: 10 })).entries.map(({ action }) => action)).toEqual(['d', 'c'])
  },

  'everything an operator changes is written down': async ({ store, expect }) => {
    const [died, gone] = [await jobIn(store, 'dead'), await jobIn(store, 'dead')]
    const running = await jobIn(store, 'running')
    const waiting = await jobIn(store, 'scheduled')

    await store.requeue([died], 'ada')
    await store.discard([gone], 'grace')
    await store.cancel([running], 'ada')
    await store.update(waiting, { priority: 1 }, 'ada')
    await store.cancel([waiting], 'ada')
    await store.pause(QUEUE, 'ada')
    await store.setQueue(QUEUE, { limits: { maxAttempts: 3 } }, 'ada')
    await store.resume(QUEUE, 'grace')

    expect((await linesOf(store)).reverse()).toEqual([
      ['ada', 'requeue', died],
      ['grace', 'discard', gone],
      ['ada', 'cancel', running],
      ['ada', 'update', waiting],
      ['ada', 'cancel', waiting],
      ['ada', 'pause', QUEUE],
      ['ada', 'set queue', QUEUE],
      ['grace', 'resume', QUEUE],
    ])
  },

  'a change of a job or a queue is written down with what was changed, payloads left out': async ({
    store,
    expect,
  }) => {
    const id = await jobIn(store, 'scheduled')
    await store.update(id, { priority: 1, runAtMs: START_MS + MINUTE_MS, payload: '{"secret":1}' }, 'ada')
    await store.update(id, { runAtMs: null }, 'ada')
    await store.setQueue(QUEUE, { limits: { maxAttempts: 3 }, retentionMs: 5 }, 'ada')

    const { entries } = await store.audit({ before: null, limit: 10 })

    expect(entries.map(({ details }) => details)).toEqual([
      { before: { limits: {} }, after: { limits: { maxAttempts: 3 }, retentionMs: 5 } },
      { runAt: null },
      { priority: 1, runAt: '2026-03-01T12:01:00.000Z', payload: 'replaced' },
    ])
  },

  'changes of schedules are written down': async ({ store, expect }) => {
    await store.setSchedule(newSchedule(), START_MS + MINUTE_MS, 'ada')
    await store.pauseSchedule('nightly', 'ada')
    await store.resumeSchedule('nightly', START_MS + MINUTE_MS, 'ada')
    await store.removeSchedule('nightly', 'grace')
    await store.removeSchedule('nightly', 'grace')

    expect((await linesOf(store)).reverse()).toEqual([
      ['ada', 'set schedule', 'nightly'],
      ['ada', 'pause schedule', 'nightly'],
      ['ada', 'resume schedule', 'nightly'],
      ['grace', 'remove schedule', 'nightly'],
    ])
  },

  'a schedule that is set as it is leaves no line, and is shown': async ({ store, expect }) => {
    const made = await store.setSchedule(newSchedule(), START_MS + MINUTE_MS, 'ada')
    const same = await store.setSchedule(newSchedule(), START_MS + 2 * MINUTE_MS, 'ada')
    await store.setSchedule(newSchedule({ priority: 7 }), START_MS + MINUTE_MS, 'grace')
    await store.setSchedule(newSchedule({ priority: 7 }), START_MS + MINUTE_MS, 'grace')

    expect(same).toEqual(made)
    expect((await linesOf(store)).reverse()).toEqual([
      ['ada', 'set schedule', 'nightly'],
      ['grace', 'set schedule', 'nightly'],
    ])
  },

  'many who set the same new schedule concurrently leave one line': async ({ store, expect }) => {
    await Promise.all(Array.from({ length: 8 }, () => store.setSchedule(newSchedule(), START_MS + MINUTE_MS, 'ada')))

    expect(await linesOf(store)).toEqual([['ada', 'set schedule', 'nightly']])
  },

  'a queue that is set as it is leaves no line': async ({ store, expect }) => {
    await enqueueJob(store)
    await store.setQueue(QUEUE, { limits: {} }, 'ada')
    for (const maxAttempts of [3, 3, 4]) await store.setQueue(QUEUE, { limits: { maxAttempts } }, 'ada')
    await store.setQueue('unheard-of', { limits: {} }, 'ada')

    expect((await linesOf(store)).reverse()).toEqual([
      ['ada', 'set queue', QUEUE],
      ['ada', 'set queue', QUEUE],
      ['ada', 'set queue', 'unheard-of'],
    ])
  },

  'what was refused is not written down': async ({ store, expect }) => {
    const id = await jobIn(store, 'succeeded')

    await store.cancel([id, newId()], OPERATOR)
    await store.requeue([id], OPERATOR)
    await store.discard([id], OPERATOR)
    await store.update(id, { priority: 1 }, OPERATOR)

    expect(await linesOf(store)).toEqual([])
  },

  'a line can be written by hand, with details': async ({ store, clock, expect }) => {
    const job = newId()
    await clock.advance(SECOND_MS)

    await store.record({ actor: 'ada', action: 'reveal payload', job, details: { why: 'ticket 7', fields: [1, null] } })
    await store.record({ actor: 'ada', action: 'sign in', target: 'dashboard' })

    const { entries } = await store.audit({ before: null, limit: 10 })
    const at = new Date(START_MS + SECOND_MS)
    expect(entries.map(({ line: _, ...entry }) => entry)).toEqual([
      { at, actor: 'ada', action: 'sign in', job: null, target: 'dashboard', details: null },
      {
        at,
        actor: 'ada',
        action: 'reveal payload',
        job,
        target: null,
        details: { why: 'ticket 7', fields: [1, null] },
      },
    ])
  },

  'the log is read page by page': async ({ store, expect }) => {
    for (const action of ['one', 'two', 'three']) await store.record({ actor: 'ada', action })

    const first = await store.audit({ before: null, limit: 2 })
    const second = await store.audit({ before: first.next, limit: 2 })

    const actions = [...first.entries, ...second.entries].map(({ action }) => action)
    expect(actions).toEqual(['three', 'two', 'one'])
    expect([first.next, second.next]).toEqual([first.entries[1]!.line, null])
  },

  'the log can be narrowed to an actor, an action, a job': async ({ store, expect }) => {
    const job = newId()
    await store.record({ actor: 'ada', action: 'look', job })
    await store.record({ actor: 'grace', action: 'look' })
    await store.record({ actor: 'grace', action: 'leave', job })

    const count = async (filter: object) => (await store.audit({ before: null, limit: 10, ...filter })).entries.length
    expect([await count({ actor: 'grace' }), await count({ action: 'look' }), await count({ job })]).toEqual([2, 2, 2])
    expect(await count({ actor: 'grace', job, action: 'leave' })).toBe(1)
  },

  'a page of the log is bounded': async ({ store, expect }) => {
    expect(await codeOf(store.audit({ before: null, limit: 0 }))).toBe('invalid_option')
    expect(await codeOf(store.audit({ before: null, limit: 201 }))).toBe('invalid_option')
  },
}

function newKey(changes: Partial<NewApiKey> = {}): NewApiKey {
  const hash = 'ab'.repeat(32)
  return { id: 'k1', hash, name: 'deploy', scopes: ['read', 'enqueue'], queues: null, expiresAtMs: null, ...changes }
}

const keys: Facts = {
  'a key is kept and shown without its hash': async ({ store, expect }) => {
    const made = await store.createKey(newKey({ queues: ['a', 'b'], expiresAtMs: START_MS + MINUTE_MS }), OPERATOR)

    expect(made).toEqual({
      id: 'k1',
      name: 'deploy',
      scopes: ['read', 'enqueue'],
      queues: ['a', 'b'],
      createdAt: new Date(START_MS),
      expiresAt: new Date(START_MS + MINUTE_MS),
      revokedAt: null,
      lastUsedAt: null,
    })
    expect(await store.keys()).toEqual([made])
    expect(await linesOf(store)).toEqual([[OPERATOR, 'create key', 'k1']])
  },

  'a key is found with its hash': async ({ store, expect }) => {
    const made = await store.createKey(newKey(), OPERATOR)

    expect(await store.findKey('k1')).toEqual({ ...made, hash: 'ab'.repeat(32) })
    expect(await store.findKey('k2')).toBe(null)
  },

  'a key that is made again stays as it is': async ({ store, expect }) => {
    const made = await store.createKey(newKey(), OPERATOR)

    expect(await store.createKey(newKey({ name: 'other', hash: 'cd'.repeat(32) }), OPERATOR)).toEqual(made)
  },

  'a revoked key says since when, and stays revoked': async ({ store, clock, expect }) => {
    await store.createKey(newKey(), OPERATOR)
    await clock.advance(SECOND_MS)

    const revoked = await store.revokeKey('k1', 'grace')
    await clock.advance(SECOND_MS)

    expect(revoked!.revokedAt).toEqual(new Date(START_MS + SECOND_MS))
    expect(await store.revokeKey('k1', 'grace')).toEqual(revoked)
    expect(await store.revokeKey('k2', 'grace')).toBe(null)
    expect((await linesOf(store))[0]).toEqual(['grace', 'revoke key', 'k1'])
  },

  'the last use of a key is noted once a minute': async ({ store, clock, expect }) => {
    await store.createKey(newKey(), OPERATOR)
    await store.touchKey('k1')
    await clock.advance(30 * SECOND_MS)
    await store.touchKey('k1')
    expect((await store.findKey('k1'))!.lastUsedAt).toEqual(new Date(START_MS))
    await clock.advance(30 * SECOND_MS)

    await store.touchKey('k1')
    await store.touchKey('unheard-of')

    expect((await store.findKey('k1'))!.lastUsedAt).toEqual(new Date(START_MS + MINUTE_MS))
  },

  'keys are listed newest first': async ({ store, clock, expect }) => {
    await store.createKey(newKey(), OPERATOR)
    await clock.advance(SECOND_MS)
    await store.createKey(newKey({ id: 'k2' }), OPERATOR)

    expect((await store.keys()).map(({ id }) => id)).toEqual(['k2', 'k1'])
  },
}

const health: Facts = {
  'a store says what it is and what time it has': async ({ store, expect }) => {
    const { kind, nowMs, version } = await store.health()

    expect([kind, nowMs]).toEqual([store.kind, START_MS])
    expect(version.length).toBeGreaterThan(0)
  },
}

export const auditFacts: Facts = { ...audits, ...keys, ...health }
