// The beginning of a chain: what a job that comes after others is answered, whether they are open, finished or unknown.

import type { Facts } from './context.js'
import { newId, newJob, SECOND_MS } from './samples.js'
import { claimIds, claimJob, enqueueJob, jobIn, statesOf } from './steps.js'

export const chainStartFacts: Facts = {
  'a job after one that does not exist is not written, and the answer names it': async ({ store, expect }) => {
    const missing = newId()
    const orphan = newJob({ after: [missing] })

    const answers = await store.enqueue([orphan])

    expect(answers).toEqual([{ id: orphan.id, unknownParent: missing }])
    expect(await store.get(orphan.id)).toBe(null)
  },

  'one unknown parent among known ones is enough': async ({ store, expect }) => {
    const missing = newId()
    const orphan = newJob({ after: [await enqueueJob(store), missing] })

    const answers = await store.enqueue([orphan])

    expect(answers).toEqual([{ id: orphan.id, unknownParent: missing }])
  },

  'an unknown parent does not disturb the neighbours': async ({ store, expect }) => {
    const [before, after] = [newJob(), newJob()]

    await store.enqueue([before, newJob({ after: [newId()] }), after])

    expect(await claimIds(store)).toEqual([before.id, after.id])
  },

  'a parent may stand before its child in the same batch': async ({ store, expect }) => {
    const parent = newJob()
    const child = newJob({ after: [parent.id] })

    const answers = await store.enqueue([parent, child])

    expect(answers[1]).toEqual({ id: child.id, created: true, state: 'blocked' })
  },

  'a parent that stands behind its child in the same batch is unknown': async ({ store, expect }) => {
    const parent = newJob()
    const child = newJob({ after: [parent.id] })

    const answers = await store.enqueue([child, parent])

    expect(answers).toEqual([
      { id: child.id, unknownParent: parent.id },
      { id: parent.id, created: true, state: 'ready' },
    ])
  },

  'a job after one that was not written is not written either': async ({ store, expect }) => {
    const orphan = newJob({ after: [newId()] })
    const child = newJob({ after: [orphan.id] })

    const answers = await store.enqueue([orphan, child])

    expect(answers[1]).toEqual({ id: child.id, unknownParent: orphan.id })
  },

  'a job cannot come after itself': async ({ store, expect }) => {
    const id = newId()

    const answers = await store.enqueue([newJob({ id, after: [id] })])

    expect(answers).toEqual([{ id, unknownParent: id }])
  },

  'a child of a succeeded job is ready immediately': async ({ store, expect }) => {
    const child = newJob({ after: [await jobIn(store, 'succeeded')] })

    const answers = await store.enqueue([child])

    expect(answers).toEqual([{ id: child.id, created: true, state: 'ready' }])
    expect((await claimJob(store)).id).toBe(child.id)
  },

  'a child of a succeeded job waits for its own time': async ({ store, expect }) => {
    const child = newJob({ after: [await jobIn(store, 'succeeded')], when: { delayMs: SECOND_MS } })

    const answers = await store.enqueue([child])

    expect(answers).toEqual([{ id: child.id, created: true, state: 'scheduled' }])
  },

  'a child of a dead job is cancelled immediately': async ({ store, expect }) => {
    const child = newJob({ after: [await jobIn(store, 'dead')] })

    const answers = await store.enqueue([child])

    expect(answers).toEqual([{ id: child.id, created: true, state: 'cancelled' }])
  },

  'a child of a cancelled job is cancelled immediately, though another parent is open': async ({ store, expect }) => {
    const gone = await jobIn(store, 'cancelled')
    const child = newJob({ after: [await enqueueJob(store), gone] })

    const answers = await store.enqueue([child])

    expect(answers).toEqual([{ id: child.id, created: true, state: 'cancelled' }])
  },

  'a child of a dead job that runs anyway is ready immediately': async ({ store, expect }) => {
    const child = newJob({ after: [await jobIn(store, 'dead')], onParentDead: 'run' })

    const answers = await store.enqueue([child])

    expect(answers).toEqual([{ id: child.id, created: true, state: 'ready' }])
  },

  'a child of a finished and an open job is blocked': async ({ store, expect }) => {
    const child = newJob({ after: [await jobIn(store, 'succeeded'), await enqueueJob(store)] })

    const answers = await store.enqueue([child])

    expect(answers).toEqual([{ id: child.id, created: true, state: 'blocked' }])
  },

  'a batch with a dead parent cancels child and grandchild': async ({ store, expect }) => {
    const child = newJob({ after: [await jobIn(store, 'dead')] })
    const grandchild = newJob({ after: [child.id] })

    await store.enqueue([child, grandchild])
    await store.promote(100)

    expect(await statesOf(store, [child.id, grandchild.id])).toEqual(['cancelled', 'cancelled'])
  },
}
