// What the commands that listen on a port share (server, dev, worker): errors about ports, and the address that signs in.

import { open, rm } from 'node:fs/promises'
import { resolve } from 'node:path'
import type { Option } from 'commander'
import { isHoldfastError } from '../core/errors.js'
import type { Holdfast } from '../holdfast.js'
import type { Server } from '../server/index.js'
import type { ServerOptions } from '../server/options.js'
import { CliError } from './errors.js'
import { EXIT } from './exit-codes.js'
import { environmentOption } from './input/connection.js'

export const PORT_DEFAULT = 4_680

/** The HTTP server of a store, with its metrics. It does not listen yet. */
export async function openServer(holdfast: Holdfast, options: ServerOptions): Promise<Server> {
  // Imported here: only server and dev need them.
  const [{ createServer }, { createMetrics }] = await Promise.all([
    import('../server/index.js'),
    import('../metrics/index.js'),
  ])
  return createServer(holdfast, { ...options, metrics: createMetrics(holdfast) })
}

interface Place {
  readonly port: number
  readonly host?: string
}

/** Runs `listen`. An error of the operating system says which port and host it is about, and what to do. */
export async function atPort<T>({ port, host }: Place, listen: () => Promise<T>): Promise<T> {
  try {
    return await listen()
  } catch (error) {
    if (isHoldfastError(error)) throw error
    const { code } = error as NodeJS.ErrnoException
    const place = host === undefined ? `port ${port}` : `port ${port} of ${host}`
    if (code === 'EADDRINUSE') {
      throw new CliError(`${place} is taken by another program`, {
        exitCode: EXIT.conflict,
        hint: 'choose another port, or 0 for any free one',
        cause: error,
      })
    }
    if (code === 'EACCES') {
      throw new CliError(`this user may not listen on ${place}`, {
        hint: 'choose a port from 1024 up, and put a proxy in front of it',
        cause: error,
      })
    }
    if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND' || code === 'EAI_AGAIN') {
      throw new CliError(`this machine has no address ${host ?? 'localhost'}`, {
        hint: 'give an address of this machine, such as 127.0.0.1, or 0.0.0.0 for all of them',
        cause: error,
      })
    }
    throw error
  }
}

/** True when another program listens on the port. */
export function isTaken(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'EADDRINUSE'
}

/** --sign-in-file. */
export function signInFileOption(): Option {
  return environmentOption(
    '--sign-in-file <file>',
    'write an address that signs in to this file, readable by you alone',
  )
}

interface SignInOptions {
  readonly server: Pick<Server, 'createToken'>
  /** The address of the server. */
  readonly url: string
  /** True where a person sees what is printed and nothing keeps it. */
  readonly isTerminal: boolean
  /** Where to write the address, or null. */
  readonly file: string | null
}

/** Where the address that signs in is to be found. */
export interface SignIn {
  /** To be printed; null where it must not be. */
  readonly url: string | null
  /** The file that holds it, or null. */
  readonly file: string | null
  /** Removes the file: its token ends with the process. */
  close(): Promise<void>
}

/**
 * Makes an address that signs in once, with a token of its own for each place it is put. On a terminal it is printed. Elsewhere
 * the output is kept, in a log that others read: there it goes only into a file that its owner alone may read.
 */
export async function offerSignIn({ server, url, isTerminal, file }: SignInOptions): Promise<SignIn> {
  const address = () => `${url}/?token=${server.createToken()}`
  const path = file === null ? null : resolve(file)
  if (path !== null) await writePrivately(path, `${address()}\n`)
  return {
    url: isTerminal ? address() : null,
    file: path,
    close: async () => {
      if (path !== null) await rm(path, { force: true }).catch(() => {})
    },
  }
}

async function writePrivately(path: string, text: string): Promise<void> {
  try {
    await rm(path, { force: true })
    // A new file, so that a link somebody else placed there is not followed.
    const file = await open(path, 'wx', 0o600)
    try {
      await file.writeFile(text)
    } finally {
      await file.close()
    }
  } catch (cause) {
    throw new CliError(`the address that signs in cannot be written to ${path}: ${(cause as Error).message}`, {
      hint: 'give another file with --sign-in-file',
      cause,
    })
  }
}
