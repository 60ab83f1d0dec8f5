// A process's own file of what it asked and heard: one line of JSON each, appended before the next thing happens, so that what was
// written survives the process's end.

import { closeSync, openSync, writeSync } from 'node:fs'
import type { ProcessEvent } from '../history/events.js'

/** A line as the teller gives it; who tells it, and when, is added. */
export type ToldLine = ProcessEvent extends infer E
  ? E extends ProcessEvent
    ? Omit<E, 'process' | 'incarnation' | 'mono' | 'wall'>
    : never
  : never

export class Recorder {
  readonly #file: number
  #isClosed = false
  readonly #who: { readonly process: string; readonly incarnation: number }

  constructor(path: string, who: { readonly process: string; readonly incarnation: number }) {
    this.#file = openSync(path, 'a')
    this.#who = who
  }

  /** Nothing once it is closed: what a run that was broken off still says is of no use to anybody. */
  write(line: ToldLine): void {
    if (this.#isClosed) return
    const told = { ...line, ...this.#who, mono: performance.now(), wall: Date.now() }
    writeSync(this.#file, `${JSON.stringify(told)}\n`)
  }

  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    closeSync(this.#file)
  }
}
