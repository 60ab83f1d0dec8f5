// The other end of children.ts: what a process that a measurement started says to it, and hears from it.

import type { Message } from './children.js'

const heard: Message[] = []
const wishes = new Map<string, (message: Message) => void>()

process.on('message', (message: Message) => {
  const wish = wishes.get(message.kind)
  if (wish === undefined) heard.push(message)
  else {
    wishes.delete(message.kind)
    wish(message)
  }
})
// Nobody is left to report to: do not go on draining in the dark.
const exit = () => process.exit(1)
process.on('disconnect', exit)

/** What this process was started for. */
export function readAssignment<Assignment>(): Assignment {
  return JSON.parse(process.argv[2]!) as Assignment
}

/** Says something to the parent. */
export function tellParent<M extends Message>(message: M): void {
  process.send!(message)
}

/** The next message of a kind from the parent. */
export function hearParent<M extends Message>(kind: M['kind']): Promise<M> {
  const index = heard.findIndex((message) => message.kind === kind)
  if (index !== -1) return Promise.resolve(heard.splice(index, 1)[0] as M)
  return new Promise((resolve) => {
    wishes.set(kind, resolve as (message: Message) => void)
  })
}

/** Answers every message of a kind with what `answer` makes of it, under the same kind. */
export function answerParent<M extends Message>(kind: M['kind'], answer: (message: M) => object): void {
  process.on('message', (message: Message) => {
    if (message.kind === kind) process.send!({ kind, ...answer(message as M) })
  })
}

/** Takes leave: from here on the process ends when it has nothing left to do. */
export function leaveParent(): void {
  process.off('disconnect', exit)
  process.disconnect()
}
