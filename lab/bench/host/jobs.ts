// The handlers that npm run bench -- host measures, as a module that children load.

import { setTimeout as sleep } from 'node:timers/promises'
import { defineJob, type Handler, type JobDefinition } from '../../../src/index.js'

/** How long a handler stays in its child on the first attempt, so that it is there when the child is killed. */
const HOLD_MS = 1_500

interface Text {
  readonly text: string
}

export const empty: JobDefinition<Text> = defineJob<Text>('empty')
export const emptyInThread: JobDefinition<Text> = defineJob<Text>('empty-in-thread', { isolate: 'thread' })
/** Stays on its first attempt; the next one returns when it began. */
export const held: JobDefinition<null> = defineJob<null>('held', { isolate: 'process' })
/** The load beside it. */
export const beside: JobDefinition<null> = defineJob<null>('beside', { isolate: 'process' })

export interface Began {
  readonly attempt: number
  readonly atMs: number
}

export const handlers: readonly Handler[] = [
  empty.handle(() => {}),
  emptyInThread.handle(() => {}),
  held.handle(async (_, { attempt }): Promise<Began> => {
    const atMs = Date.now()
    if (attempt === 1) await sleep(HOLD_MS)
    return { attempt, atMs }
  }),
  beside.handle(() => sleep(5)),
]
