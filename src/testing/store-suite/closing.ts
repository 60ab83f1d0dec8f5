// Closing: a store that is closed says so, and nothing it kept depends on the one who closed it.

import type { Facts } from './context.js'
import { newJob } from './samples.js'
import { codeOf, enqueueJob } from './steps.js'

export const closingFacts: Facts = {
  'a closed store refuses to write': async ({ store, expect }) => {
    await store.close()

    expect(await codeOf(store.enqueue([newJob()]))).toBe('closed')
  },

  'a closed store refuses to look': async ({ store, expect }) => {
    const id = await enqueueJob(store)
    await store.close()

    expect(await codeOf(store.get(id))).toBe('closed')
  },

  'a store may be closed twice': async ({ store, expect }) => {
    await store.close()

    expect(await codeOf(store.close())).toBe(null)
  },
}
