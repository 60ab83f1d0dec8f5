// The server processes behind this process's connections, by what each connection is for.

import pg from 'pg'
import { type ThreadReading, ThreadTimes } from './thread-times.js'

/** The driver's own record of the server process, which its types leave out. */
interface Connected {
  readonly processID: number | null
  readonly connectionParameters: { readonly application_name?: string }
}

/** The purposes whose time is looked at, as the product names its connections. */
export type Purpose = 'claim jobs' | 'write jobs'

interface Known {
  readonly pid: number
  readonly times: ThreadTimes | null
}

/** Sees every connection that the driver opens from now on. Created before the store is opened. */
export class Backends {
  readonly #clients = new Map<string, Connected>()
  readonly #known = new Map<string, Known>()

  constructor() {
    const clients = this.#clients
    const connect = pg.Client.prototype.connect
    // The product has no hook for this, and needs none for anything else.
    pg.Client.prototype.connect = function (this: pg.Client, ...words: Parameters<typeof connect>) {
      const opened = this as unknown as Connected
      clients.set(opened.connectionParameters.application_name ?? '', opened)
      return connect.apply(this, words)
    } as typeof connect
  }

  /** The times of the server process behind the newest connection of a purpose; null when it can't be seen from here. */
  read(purpose: Purpose): ThreadReading | null {
    const pid = this.#clients.get(`holdfast ${purpose}`)?.processID ?? null
    if (pid === null) return null
    let known = this.#known.get(purpose)
    if (known?.pid !== pid) {
      known?.times?.close()
      known = { pid, times: ThreadTimes.ofBackend(pid) }
      this.#known.set(purpose, known)
    }
    return known.times?.read() ?? null
  }
}
