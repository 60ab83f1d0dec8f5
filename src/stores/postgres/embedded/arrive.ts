// Gets a place at the server of a folder: at the one that runs, or at one it starts.

import { HoldfastError } from '../../../core/errors.js'
import { pause } from './deadline.js'
import { type Layout, readPassword } from './folder.js'
import { isPostmaster, type Postmaster, readPostmaster } from './postmaster.js'
import { type Arrival, enter, type Presence } from './presence.js'
import { programFailed } from './programs.js'
import { askToStop, type Site, startServer } from './start.js'

// One failure may be a port taken in between, or the rest of a killed server; three in a row are not.
const START_FAILURES_MAX = 3

/**
 * Resolves with a presence at this folder's server, whatever state it is found in: not made yet, stopped,
 * starting, running, stopping, killed. `isWanted` is asked before each step that can still be left out.
 * Raises `store_unavailable` when the deadline passes or the server does not start.
 */
export async function arrive(site: Site, deadline: number, isWanted: () => boolean): Promise<Presence> {
  let failures = 0
  let hasStarted = false
  let obstacle: Error | undefined
  // Kept here, because a start that fails takes the lock file with it.
  let portBefore: number | null = null
  while (performance.now() < deadline) {
    const postmaster = await readPostmaster(site.layout)
    portBefore = postmaster?.port || portBefore
    const arrival = await tryServer(site.layout, postmaster)
    if (arrival.presence !== null) return arrival.presence
    obstacle = arrival.error ?? obstacle
    // A server that we have started is also ours to stop, so then we arrive even if nobody waits any longer.
    if (!hasStarted && !isWanted()) throw new HoldfastError('closed', 'the embedded store was closed meanwhile')
    if (arrival.isServer) {
      await pause(20)
      continue
    }
    const lines = await startServer(site, { deadline, portBefore })
    hasStarted = lines === null
    if (lines === null || (await isSomebodyElses(site.layout, lines))) continue
    failures += 1
    if (failures === START_FAILURES_MAX) {
      throw programFailed(`the embedded server in ${site.layout.folder} does not start`, lines, true)
    }
    await pause(100 * failures)
  }
  throw new HoldfastError(
    'store_unavailable',
    `no connection to the embedded server in ${site.layout.folder} within ${site.startTimeoutMs} ms ` +
      `(${obstacle?.message ?? 'no answer'}): look into ${site.layout.log}, or raise startTimeoutMs`,
    { cause: obstacle, retryable: true },
  )
}

type Attempt =
  | { readonly presence: Presence }
  | { readonly presence: null; readonly isServer: boolean; readonly error: Error | undefined }

async function tryServer(layout: Layout, postmaster: Postmaster | null): Promise<Attempt> {
  if (postmaster === null) return { presence: null, isServer: false, error: undefined }
  const isLive = await isPostmaster(postmaster.pid, layout)
  // Asked politely (SIGTERM), a server refuses newcomers and waits for those who are there, who may stay for days.
  if (isLive && postmaster.status === 'stopping') askToStop(postmaster.pid)
  // A stale port may be anyone's by now. A socket in our folder is ours, even if its server is in another
  // container, where we cannot see the process.
  if (!isLive && !postmaster.onSocket) return { presence: null, isServer: false, error: undefined }
  const arrival = await enterServer(layout, postmaster)
  if (arrival.presence !== null) return arrival
  return { presence: null, isServer: isLive || arrival.answered, error: arrival.error }
}

async function enterServer(layout: Layout, { onSocket, port }: Postmaster): Promise<Arrival> {
  const password = await readPassword(layout)
  const arrival = await enter({ host: onSocket ? layout.socket : '127.0.0.1', port, password })
  if (arrival.presence === null && arrival.error.code === '28P01') {
    throw new HoldfastError(
      'access_denied',
      `the embedded server in ${layout.folder} refuses the password in ${layout.password}: restore the file that was made with the data`,
      { cause: arrival.error },
    )
  }
  return arrival
}

/** True when our server ended because another process was faster, or because the rest of a killed one is still ending. */
async function isSomebodyElses(layout: Layout, lines: string): Promise<boolean> {
  const postmaster = await readPostmaster(layout)
  if (postmaster !== null && (await isPostmaster(postmaster.pid, layout))) return true
  if (!lines.includes('is still in use')) return false
  await pause(100)
  return true
}
