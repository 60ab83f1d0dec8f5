// What is where in an embedded folder, and the parts that are ours rather than PostgreSQL's.

import { constants } from 'node:fs'
import { access, type FileHandle, link, mkdir, open, readFile, realpath, rename, stat } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { HoldfastError, isHoldfastError, show } from '../../../core/errors.js'
import type { Binaries } from './binaries.js'

/** The paths of one embedded folder, all absolute and free of symbolic links. */
export interface Layout {
  readonly folder: string
  /** PostgreSQL's data folder. It is there whole or not at all. */
  readonly data: string
  /** Holds the server's socket, when the path is short enough for one. */
  readonly socket: string
  readonly password: string
  readonly log: string
}

/** Makes the folder if need be. Raises `invalid_option` for a path that is no folder, `access_denied` for somebody else's, and
 *  `store_unavailable` for one we may not use. */
export async function prepareFolder(path: string): Promise<Layout> {
  if (typeof path !== 'string' || path === '') {
    throw new HoldfastError('invalid_option', `the folder of an embedded store must be a path, got ${show(path)}`)
  }
  const folder = await makeFolder(resolve(path))
  return {
    folder,
    data: join(folder, 'data'),
    socket: join(folder, 'socket'),
    password: join(folder, 'password'),
    log: join(folder, 'server.log'),
  }
}

async function makeFolder(path: string): Promise<string> {
  try {
    await mkdir(dirname(path), { recursive: true })
    await makePrivateFolder(path)
    const found = await stat(path)
    if (!found.isDirectory()) throw Object.assign(new Error('it is a file'), { code: 'ENOTDIR' })
    checkOwner(path, found.uid)
    await access(path, constants.R_OK | constants.W_OK | constants.X_OK)
    return await realpath(path)
  } catch (cause) {
    if (isHoldfastError(cause)) throw cause
    const { code, message } = cause as NodeJS.ErrnoException
    if (code === 'ENOTDIR' || code === 'EEXIST') {
      throw new HoldfastError(
        'invalid_option',
        `the embedded store needs a folder, and ${path} is a file or lies below one: choose another path`,
        { cause },
      )
    }
    throw new HoldfastError(
      'store_unavailable',
      `the embedded store cannot use the folder ${path} (${message}): make it writable for this user, or choose another path`,
      { cause },
    )
  }
}

// Who owns the folder can put another server, another password or other data in its place. PostgreSQL refuses foreign data too; what is
// root's is no danger, because root may do all that anyway. As root the server runs as another user, who owns the data and no more.
function checkOwner(path: string, owner: number): void {
  const self = process.getuid?.()
  if (self === undefined || owner === self || owner === 0) return
  throw new HoldfastError(
    'access_denied',
    `the folder ${path} of the embedded store belongs to user ${owner}, and this process runs as user ${self}: ` +
      'run as its owner, change the owner (chown) when you trust what is in it, or choose another folder',
    { details: { owner, user: self } },
  )
}

/** Makes one folder that only its owner may enter; leaves an existing one as it is. */
export async function makePrivateFolder(path: string): Promise<void> {
  await mkdir(path, { mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error
  })
}

/** True when the data folder is in place; raises for one that is not PostgreSQL's, or of another major version. */
export async function checkData(layout: Layout, binaries: Binaries): Promise<boolean> {
  const readVersion = () => readFile(join(layout.data, 'PG_VERSION'), 'utf8').catch(() => null)
  let version = await readVersion()
  if (version === null) {
    if ((await stat(layout.data).catch(() => null)) === null) return false
    // Another process may have put the folder in place between the two looks.
    version = await readVersion()
  }
  if (version === null) {
    throw new HoldfastError(
      'invalid_option',
      `${layout.data} exists and is not a PostgreSQL data folder: choose another folder for the embedded store, or move that one away`,
    )
  }
  const found = version.trim()
  if (found === binaries.major) return true
  throw new HoldfastError(
    'unsupported',
    `${layout.data} was made by PostgreSQL ${found} and the installed ${binaries.packageName} is PostgreSQL ${binaries.major}, ` +
      `which cannot read it: install version ${found} of that package, or dump the data there and load it into a new folder`,
    { details: { found, installed: binaries.major } },
  )
}

/** The server's password. Raises `store_unavailable` when the file is gone or may not be read. */
export async function readPassword(layout: Layout): Promise<string> {
  try {
    return (await readFile(layout.password, 'utf8')).trim()
  } catch (cause) {
    throw new HoldfastError(
      'store_unavailable',
      `the password of the embedded server in ${layout.folder} cannot be read (${(cause as Error).message}): ` +
        'restore that file, or run as the user who made the folder',
      { cause },
    )
  }
}

/**
 * Puts a password in place unless there is one. It is written to `draft` first and then linked, so that a kill
 * leaves no half of it, and of several processes exactly one has its password kept.
 */
export async function placePassword(layout: Layout, draft: string, password: string): Promise<void> {
  const file = await open(draft, 'wx', 0o600)
  try {
    await file.writeFile(`${password}\n`)
    await file.sync()
  } finally {
    await file.close()
  }
  await link(draft, layout.password).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error
  })
}

// The log is quiet, so 10 MB are months of it; one older file is kept for anyone who investigates.
const LOG_BYTES_MAX = 10 * 1024 * 1024

/** Opens the server's log for appending, after setting aside one that has grown too large. */
export async function openLog(layout: Layout): Promise<FileHandle> {
  const size = await logBytes(layout)
  if (size > LOG_BYTES_MAX) await rename(layout.log, `${layout.log}.1`).catch(() => {})
  return open(layout.log, 'a', 0o600)
}

/** How long the log is now: where the lines of the next start will begin. */
export async function logBytes(layout: Layout): Promise<number> {
  return (await stat(layout.log).catch(() => null))?.size ?? 0
}

/** The last lines of the log after the first `fromBytes`, for messages. */
export async function logTail(layout: Layout, fromBytes: number): Promise<string> {
  const whole = await readFile(layout.log).catch(() => Buffer.alloc(0))
  return lastLines(whole.subarray(fromBytes <= whole.length ? fromBytes : 0).toString('utf8'))
}

/** The last lines of a program's output: enough to see why it failed, short enough for a message. */
export function lastLines(output: string): string {
  const lines = output.split('\n').filter((line) => line.trim() !== '')
  return lines.slice(-8).join('\n') || '(no output)'
}
