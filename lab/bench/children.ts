// Processes that a measurement starts: they exchange messages with it and end at their deadline at the latest.

import { type ChildProcess, fork } from 'node:child_process'

/** A message in either direction. */
export interface Message {
  readonly kind: string
}

interface Wish {
  readonly kind: string
  readonly resolve: (message: Message) => void
  readonly reject: (error: Error) => void
}

interface ChildOptions {
  readonly name: string
  readonly deadlineMs: number
  /** The Node that runs it. Default: this one. */
  readonly node?: string
}

/** One process. Its messages are kept until they are read. */
export class Child {
  readonly pid: number
  readonly #child: ChildProcess
  readonly #received: Message[] = []
  #wishes: Wish[] = []
  readonly #listeners = new Map<string, (message: Message) => void>()
  readonly #ended: Promise<void>
  #end: Error | null = null

  /** Starts a module as a process. `name` is its name in messages; after `deadlineMs` it is killed. */
  constructor(module: URL, assignment: unknown, options: ChildOptions) {
    const { name, deadlineMs, node = process.execPath } = options
    // Each in a session of its own, as separate services would be: Linux shares processors out by session first, and each process of
    // the PostgreSQL server has one. It ends with its parent all the same, see parent.ts.
    const child = fork(module, [JSON.stringify(assignment)], {
      detached: true,
      execPath: node,
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    })
    this.#child = child
    this.pid = child.pid!
    let isLate = false
    const timer = setTimeout(() => {
      isLate = true
      child.kill('SIGKILL')
    }, deadlineMs)
    child.on('message', (message) => this.#take(message as Message))
    // A failed send to a process that has just ended is ignored: its end is reported anyway.
    child.on('error', () => {})
    this.#ended = new Promise((resolve) => {
      child.once('exit', (code, signal) => {
        clearTimeout(timer)
        const how = isLate
          ? `was not done within ${deadlineMs / 1_000} s and was killed`
          : `ended with ${signal ?? code}`
        this.#end = new Error(`${name} ${how}`)
        for (const { reject } of this.#wishes.splice(0)) reject(this.#end)
        resolve()
      })
    })
  }

  /** Sends a message. */
  send(message: Message): void {
    if (this.#end === null && this.#child.connected) this.#child.send(message)
  }

  /** The next message of a kind. Rejects when the process ends without one. */
  hear<M extends Message>(kind: M['kind']): Promise<M> {
    const index = this.#received.findIndex((message) => message.kind === kind)
    if (index !== -1) return Promise.resolve(this.#received.splice(index, 1)[0] as M)
    if (this.#end !== null) return Promise.reject(this.#end)
    return new Promise((resolve, reject) => {
      this.#wishes.push({ kind, resolve: resolve as (message: Message) => void, reject })
    })
  }

  /** Calls `listener` for every message of a kind, from now on; such messages are not kept. */
  on<M extends Message>(kind: M['kind'], listener: (message: M) => void): void {
    this.#listeners.set(kind, listener as (message: Message) => void)
  }

  /** Sends a message and resolves with its answer, which has the same kind. */
  ask<M extends Message>(message: Message): Promise<M> {
    this.send(message)
    return this.hear<M>(message.kind)
  }

  /** Resolves when it has ended, for any reason. */
  async ended(): Promise<void> {
    await this.#ended
  }

  /** Kills it, if it has not ended. */
  async kill(): Promise<void> {
    if (this.#end === null) this.#child.kill('SIGKILL')
    await this.#ended
  }

  #take(message: Message): void {
    const listener = this.#listeners.get(message.kind)
    const index = this.#wishes.findIndex(({ kind }) => kind === message.kind)
    if (listener !== undefined) listener(message)
    else if (index === -1) this.#received.push(message)
    else this.#wishes.splice(index, 1)[0]!.resolve(message)
  }
}
