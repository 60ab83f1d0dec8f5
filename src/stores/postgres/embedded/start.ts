// Starts the server apart from its parent, and stops it.

import { createServer } from 'node:net'
import { join } from 'node:path'
import { HoldfastError } from '../../../core/errors.js'
import { type Binaries, repairPackage } from './binaries.js'
import { deadlineIn, pause, remainingMs } from './deadline.js'
import { checkData, type Layout, logBytes, logTail, makePrivateFolder, openLog } from './folder.js'
import { initialize } from './initialize.js'
import { clearStrangersLocks, isPostmaster, readPostmaster, SOCKET_PORT } from './postmaster.js'
import { explainSpawn, OURSELVES, type Runner, runProgram, startProgram } from './programs.js'
import { type AsRoot, chooseRunner, giveTo } from './run-as.js'
import { serverSettings } from './settings.js'

/** One embedded server's place: its folder, its programs, and what its opener asked for. */
export interface Site {
  readonly layout: Layout
  readonly binaries: Binaries
  readonly asRoot: AsRoot
  readonly startTimeoutMs: number
  readonly stopTimeoutMs: number
}

/**
 * Starts a server and waits until it is ready, on `portBefore` where it needs a port and that one comes free. Resolves with null then, or with the last lines it wrote when it
 * ended instead, as it does when another process was first. Raises when the deadline passes.
 */
export async function startServer(
  site: Site,
  { deadline, portBefore }: { readonly deadline: number; readonly portBefore: number | null },
): Promise<string | null> {
  const { layout, binaries } = site
  await repairPackage(binaries.packageFolder)
  const runner = await prepareData(site, deadline)
  const settings = { ...serverSettings(), ...(await listenSettings(layout, portBefore)) }
  await makePrivateFolder(layout.socket)
  await giveTo(runner, layout, [layout.data, layout.socket])
  await clearStrangersLocks(layout)

  const log = await openLog(layout)
  const from = await logBytes(layout)
  let ending: string | null = null
  let pid: number | undefined
  try {
    // Detached, so that neither a kill nor Ctrl-C of its parent reaches the server.
    const command = serverCommand(site, settings)
    const child = startProgram(runner, command, { detached: true, stdio: ['ignore', log.fd, log.fd] })
    child.once('error', (error) => {
      ending = explainSpawn(error)
    })
    child.once('exit', (code) => {
      ending = `it ended with code ${code}`
    })
    child.unref()
    pid = child.pid
  } finally {
    await log.close()
  }
  while (performance.now() < deadline) {
    const postmaster = await readPostmaster(layout)
    // On Windows pg_ctl starts the server for us, under a number we do not know.
    if (postmaster?.status === 'ready' && (postmaster.pid === pid || process.platform === 'win32')) return null
    if (ending !== null) return `${await logTail(layout, from)}\n${ending}`
    await pause(10)
  }
  throw notReady(site, await logTail(layout, from))
}

/** Makes the data folder if it is not there, and says who may run a server on it. */
async function prepareData({ layout, binaries, asRoot }: Site, deadline: number): Promise<Runner> {
  const runner = await chooseRunner(layout, binaries, asRoot)
  if (await checkData(layout, binaries)) return runner
  await giveTo(runner, layout, [])
  await initialize(layout, binaries, runner, deadline)
  // Again, because another process may have made it, as another user.
  return chooseRunner(layout, binaries, asRoot)
}

// A socket's path may have 107 bytes on Linux and 103 on macOS.
const SOCKET_BYTES_MAX = 100

async function listenSettings(layout: Layout, portBefore: number | null): Promise<Readonly<Record<string, string>>> {
  const path = join(layout.socket, `.s.PGSQL.${SOCKET_PORT}`)
  if (process.platform !== 'win32' && Buffer.byteLength(path) <= SOCKET_BYTES_MAX) {
    return {
      // In double quotes it is one folder, whatever commas and blanks are in it.
      unix_socket_directories: `"${layout.socket.replaceAll('"', '""')}"`,
      unix_socket_permissions: '0700',
      listen_addresses: '',
      port: String(SOCKET_PORT),
    }
  }
  const port = await choosePort(portBefore)
  return { unix_socket_directories: '', listen_addresses: '127.0.0.1', port: String(port) }
}

// A process of the killed server holds the port until it has noticed the death of its parent, which takes a moment on a busy machine.
const PORT_PATIENCE_MS = 2_000

/** The port from before the crash if it comes free soon, so that pools that know it reconnect by themselves; otherwise any free one. */
export async function choosePort(before: number | null): Promise<number> {
  const deadline = deadlineIn(PORT_PATIENCE_MS)
  while (before !== null && performance.now() < deadline) {
    const port = await freePort(before).catch(() => null)
    if (port !== null) return port
    await pause(50)
  }
  return freePort(0)
}

function freePort(wanted: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen({ port: wanted, host: '127.0.0.1', exclusive: true }, () => {
      const { port } = server.address() as { port: number }
      server.close(() => resolve(port))
    })
  })
}

function serverCommand(
  { layout, binaries, startTimeoutMs }: Site,
  settings: Readonly<Record<string, string>>,
): string[] {
  const flags = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
  if (process.platform !== 'win32') return [binaries.postgres, '-D', layout.data, ...flags]
  // On Windows the server refuses an administrator's rights, and pg_ctl knows how to drop them.
  const waitSeconds = String(Math.ceil(startTimeoutMs / 1000))
  const options = flags.join(' ')
  return [binaries.pgCtl, 'start', '-w', '-t', waitSeconds, '-D', layout.data, '-l', layout.log, '-o', options]
}

function notReady({ layout, startTimeoutMs }: Site, lines: string): HoldfastError {
  return new HoldfastError(
    'store_unavailable',
    `the embedded server in ${layout.folder} was not ready after ${startTimeoutMs} ms. It goes on starting, and may be ` +
      `replaying its log after a crash: try again, or raise startTimeoutMs. Its last lines:\n${lines}`,
    { retryable: true },
  )
}

/** Stops the server and waits for its end. Raises `store_unavailable` when it takes longer than `stopTimeoutMs`. */
export async function stopServer({ layout, binaries, stopTimeoutMs }: Site): Promise<void> {
  const postmaster = await readPostmaster(layout)
  // Unverified numbers are never signalled: in another container it would be somebody else's.
  if (postmaster === null || !(await isPostmaster(postmaster.pid, layout))) return
  const deadline = deadlineIn(stopTimeoutMs)
  if (process.platform === 'win32') {
    await runProgram(OURSELVES, [binaries.pgCtl, 'stop', '-m', 'fast', '-W', '-D', layout.data], remainingMs(deadline))
  } else {
    askToStop(postmaster.pid)
  }
  while (performance.now() < deadline) {
    const now = await readPostmaster(layout)
    if (now?.pid !== postmaster.pid && !(await isPostmaster(postmaster.pid, layout))) return
    await pause(10)
  }
  throw new HoldfastError(
    'store_unavailable',
    `the embedded server in ${layout.folder} (process ${postmaster.pid}) has not stopped after ${stopTimeoutMs} ms: ` +
      'it is still writing to disk and will end by itself, nothing is lost',
    { retryable: true },
  )
}

/** PostgreSQL's fast shutdown: ends all connections, writes everything down, and exits. */
export function askToStop(pid: number): void {
  try {
    process.kill(pid, 'SIGINT')
  } catch {
    // It ended in the meantime.
  }
}
