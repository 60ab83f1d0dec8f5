// The other end of children.ts: the messages of a process that a measurement started.

import type { Message } from './children.js'

const received: Message[] = []
const wishes = new Map<string, (message: Message) => void>()

process.on('message', (message: Message) => {
  const wish = wishes.get(message.kind)
  if (wish === undefined) received.push(message)
  else {
    wishes.delete(message.kind)
    wish(message)
  }
})
// The parent is gone, so the process ends.
const exit = () => process.exit(1)
process.on('disconnect', exit)

/** The setup this process was started with. */
export function readAssignment<Assignment>(): Assignment {
  return JSON.parse(process.argv[2]!) as Assignment
}

/** Sends a message to the parent. */
export function sendToParent<M extends Message>(message: M): void {
  process.send!(message)
}

/** The next message of a kind from the parent. */
export function receiveFromParent<M extends Message>(kind: M['kind']): Promise<M> {
  const index = received.findIndex((message) => message.kind === kind)
  if (index !== -1) return Promise.resolve(received.splice(index, 1)[0] as M)
  return new Promise((resolve) => {
    wishes.set(kind, resolve as (message: Message) => void)
  })
}

/** Answers every message of a kind with the result of `answer`, under the same kind. */
export function answerParent<M extends Message>(kind: M['kind'], answer: (message: M) => object): void {
  process.on('message', (message: Message) => {
    if (message.kind === kind) process.send!({ kind, ...answer(message as M) })
  })
}

/** Disconnects from the parent: from here on the process ends when it has nothing left to do. */
export function leaveParent(): void {
  process.off('disconnect', exit)
  process.disconnect()
}
