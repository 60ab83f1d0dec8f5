// What postmaster.pid tells about the running server, and whether to believe it.

import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { link, readFile, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Layout } from './folder.js'

/** The port in a socket's name. Sockets lie in a folder of their own, so it need not be free. */
export const SOCKET_PORT = 5432

/** A server as its lock file describes it. */
export interface Postmaster {
  readonly pid: number
  readonly port: number
  /** True when it listens on the socket in our folder, false for 127.0.0.1. */
  readonly onSocket: boolean
  /** 'starting' also covers the replay after a crash. */
  readonly status: 'starting' | 'ready' | 'stopping'
}

/** Reads the server's lock file; null when there is none. The server it names may be dead: see isPostmaster. */
export async function readPostmaster(layout: Layout): Promise<Postmaster | null> {
  const text = await readFile(join(layout.data, 'postmaster.pid'), 'utf8').catch(() => null)
  return text === null ? null : parsePostmaster(text)
}

/** Lines: pid, data folder, start time, port, socket folder, address, shared memory, status. The later ones come as it starts. */
function parsePostmaster(text: string): Postmaster | null {
  const lines = text.split('\n').map((line) => line.trim())
  const pid = Math.abs(Number(lines[0]))
  if (!Number.isInteger(pid) || pid === 0) return null
  const status = lines[7] === 'ready' || lines[7] === 'stopping' ? lines[7] : 'starting'
  return { pid, port: Number(lines[3]), onSocket: (lines[4] ?? '') !== '', status }
}

/** True when that process is the server of this folder, and not a stranger who got its number, nor a zombie. */
export async function isPostmaster(pid: number, layout: Layout): Promise<boolean> {
  if (!isAlive(pid)) return false
  // A server works in its data folder. The same inode, rather than the same path, also holds across mounts.
  if (process.platform === 'linux') {
    const [cwd, data] = await Promise.all([stat(`/proc/${pid}/cwd`), stat(layout.data)]).catch(() => [])
    return cwd !== undefined && data !== undefined && cwd.dev === data.dev && cwd.ino === data.ino
  }
  // There PostgreSQL asks a pipe that only a server has, and so cannot be fooled by a number.
  if (process.platform === 'win32') return true
  const { stdout } = await promisify(execFile)('ps', ['-ww', '-o', 'command=', '-p', String(pid)]).catch(() => ({
    stdout: '',
  }))
  return stdout.includes(layout.data)
}

/** True when a process of that number exists, of any user. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/**
 * Takes away lock files whose server is gone and whose process number now belongs to a stranger: PostgreSQL
 * only asks whether the number is in use, and would refuse to start for as long as the stranger lives. In a
 * container, where numbers repeat at each start, that is the usual case after a crash.
 * Lock files of a dead number are left to PostgreSQL, which sees for itself that they are stale.
 */
export async function clearStrangersLocks(layout: Layout): Promise<void> {
  for (const path of [join(layout.data, 'postmaster.pid'), join(layout.socket, `.s.PGSQL.${SOCKET_PORT}.lock`)]) {
    const text = await readFile(path, 'utf8').catch(() => null)
    const pid = text === null ? null : (parsePostmaster(text)?.pid ?? null)
    if (text === null || pid === null || !isAlive(pid) || (await isPostmaster(pid, layout))) continue
    await takeAway(path, text)
  }
}

/** Removes the file if it still reads `text`. */
async function takeAway(path: string, text: string): Promise<void> {
  const aside = `${path}.stale-${randomBytes(4).toString('hex')}`
  try {
    await rename(path, aside)
    // Another process may have cleared the lock and started a server since we read it: then it gets its lock back.
    if ((await readFile(aside, 'utf8')) !== text) await link(aside, path)
  } catch {
    // Somebody else took it away, or made a new one. Either way the lock in place is PostgreSQL's to judge.
  }
  await rm(aside, { force: true })
}
