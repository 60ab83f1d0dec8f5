// A process's own file of calls and answers: one line of JSON each, appended before the next thing happens, so that the records
// survive the process's end.

import { closeSync, openSync, writeSync } from 'node:fs'
import type { ProcessEvent } from '../history/events.js'

/** A record as the process gives it; process and time are added. */
export type ToldLine = ProcessEvent extends infer E
  ? E extends ProcessEvent
    ? Omit<E, 'process' | 'processRun' | 'mono' | 'wall'>
    : never
  : never

export class Recorder {
  readonly #file: number
  #isClosed = false
  readonly #who: { readonly process: string; readonly processRun: number }

  constructor(path: string, who: { readonly process: string; readonly processRun: number }) {
    this.#file = openSync(path, 'a')
    this.#who = who
  }

  /** Does nothing once closed: late records of an aborted run are useless. */
  write(line: ToldLine): void {
    if (this.#isClosed) return
    const record = { ...line, ...this.#who, mono: performance.now(), wall: Date.now() }
    writeSync(this.#file, `${JSON.stringify(record)}\n`)
  }

  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    closeSync(this.#file)
  }
}
