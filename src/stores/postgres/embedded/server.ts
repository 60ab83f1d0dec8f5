// Life of an embedded server: the first process to open a folder starts it, apart from itself; others join;
// each keeps a presence there; when the server dies, any process that is present brings it back; the last to leave stops it.

import { checkChoice, checkWhole } from '../../../core/check.js'
import { HoldfastError } from '../../../core/errors.js'
import { arrive } from './arrive.js'
import { findBinaries } from './binaries.js'
import { deadlineIn, holdOpen, pause } from './deadline.js'
import { checkData, prepareFolder } from './folder.js'
import { isPostmaster, readPostmaster } from './postmaster.js'
import type { EmbeddedConnection, Presence } from './presence.js'
import type { AsRoot } from './run-as.js'
import { type Site, stopServer } from './start.js'

/** How an embedded server is opened. */
export interface EmbeddedOptions {
  /** How long opening, or bringing the server back, may take. Default 60 000. After a crash the server first
   *  replays up to 2 GB of its log, which a slow disk may need longer for. */
  readonly startTimeoutMs?: number
  /** How long the last close() waits for the server's end. Default 30 000. */
  readonly stopTimeoutMs?: number
  /** Only as root, whom PostgreSQL refuses: 'namespace' runs it in a user namespace, 'user' as an unprivileged
   *  user who then owns the data. Default 'auto': the first of these that works. */
  readonly asRoot?: AsRoot
  /** The platform to find programs for, as Node names it. Default: this one. */
  readonly platform?: string
  /** The processor to find programs for, as Node names it. Default: this one. */
  readonly arch?: string
}

const EMBEDDED_DEFAULTS = {
  startTimeoutMs: 60_000,
  stopTimeoutMs: 30_000,
  asRoot: 'auto',
  platform: process.platform,
  arch: process.arch,
} as const satisfies Required<EmbeddedOptions>

/** A server of our own that runs, shared by all processes that opened its folder. */
export interface EmbeddedServer {
  /** How to connect with pg. The port may change when the server has to be started again. */
  readonly connection: EmbeddedConnection
  /** Makes sure the server runs, starting it again if it died. Resolves with the connection to use from now on.
   *  Raises `store_unavailable` when it cannot, `closed` after close(). */
  ensureRunning(): Promise<EmbeddedConnection>
  /** Leaves. The last process to leave stops the server and waits until it has stopped. May be called again. */
  close(): Promise<void>
}

/**
 * Opens the embedded PostgreSQL server of a folder: makes the folder, starts the server, or joins the one that
 * runs. The server survives a crash of every process that uses it. Raises `unsupported` where PostgreSQL
 * cannot run, `invalid_option` for a path that cannot be a folder, `store_unavailable` when it does not start.
 */
export async function openEmbedded(folder: string, options: EmbeddedOptions = {}): Promise<EmbeddedServer> {
  const { platform, arch, ...rest } = { ...EMBEDDED_DEFAULTS, ...options }
  checkWhole('startTimeoutMs', rest.startTimeoutMs, 1, 2 ** 31 - 1)
  checkWhole('stopTimeoutMs', rest.stopTimeoutMs, 1, 2 ** 31 - 1)
  checkChoice('asRoot', rest.asRoot, ['auto', 'namespace', 'user'])
  const binaries = await findBinaries({ platform, arch })
  const layout = await prepareFolder(folder)
  await checkData(layout, binaries)
  const site: Site = { layout, binaries, ...rest }
  return new SharedServer(site, await holdOpen(arrive(site, deadlineIn(site.startTimeoutMs), () => true)))
}

// The first try is immediate, because usually only the server died; then ever more rarely.
const RETURN_DELAY_MS_MIN = 20
const RETURN_DELAY_MS_MAX = 5_000

class SharedServer implements EmbeddedServer {
  readonly #site: Site
  #presence: Presence
  #returning: Promise<void> | null = null
  #closing: Promise<void> | null = null

  constructor(site: Site, presence: Presence) {
    this.#site = site
    this.#presence = presence
    this.#watch(presence)
  }

  get connection(): EmbeddedConnection {
    return this.#presence.connection
  }

  async ensureRunning(): Promise<EmbeddedConnection> {
    if (this.#closing !== null) throw new HoldfastError('closed', 'the embedded store is closed: open it again')
    await holdOpen(this.#ensurePresent())
    return this.connection
  }

  close(): Promise<void> {
    this.#closing ??= holdOpen(this.#leave())
    return this.#closing
  }

  async #ensurePresent(): Promise<void> {
    if (this.#returning === null && (await this.#isServing())) return
    await this.#return()
  }

  async #isServing(): Promise<boolean> {
    // Those it knows are still answered by a server that is stopping and takes no new connections; and for a
    // moment even by the rest of one that was killed.
    const { layout } = this.#site
    const postmaster = await readPostmaster(layout)
    if (postmaster?.status !== 'ready' || !(await isPostmaster(postmaster.pid, layout))) return false
    return this.#presence.answers()
  }

  /** Gets a place again. Callers at the same time share one try. */
  #return(): Promise<void> {
    this.#returning ??= this.#takeNewPlace().finally(() => {
      this.#returning = null
    })
    return this.#returning
  }

  async #takeNewPlace(): Promise<void> {
    const before = this.#presence
    const deadline = deadlineIn(this.#site.startTimeoutMs)
    this.#presence = await arrive(this.#site, deadline, () => this.#closing === null)
    this.#watch(this.#presence)
    before.end()
  }

  #watch(presence: Presence): void {
    void presence.lost.then(() => {
      if (this.#presence === presence) void this.#comeBack()
    })
  }

  /** In the background, for as long as it takes: a server that died comes back even if nobody asks for it. */
  async #comeBack(): Promise<void> {
    for (let delayMs = RETURN_DELAY_MS_MIN; ; delayMs = Math.min(delayMs * 2, RETURN_DELAY_MS_MAX)) {
      // Spread out, because every process that was present notices at the same moment.
      await pause(delayMs * (0.5 + Math.random()))
      if (this.#closing !== null || !this.#presence.isLost) return
      // The next caller of ensureRunning receives the error, who tries the same.
      await this.#return().catch(() => {})
    }
  }

  async #leave(): Promise<void> {
    await this.#returning?.catch(() => {})
    try {
      if (await this.#presence.isLastToLeave()) await stopServer(this.#site)
    } finally {
      this.#presence.end()
    }
  }
}
