// How whoever started a server gets the address that signs in. On a terminal it is printed. Anywhere else what is printed is kept:
// in a log that others read, and that is shipped away. There it goes into a file that its owner alone may read.

import { open, rm } from 'node:fs/promises'
import { resolve } from 'node:path'
import type { Server } from '../../server/index.js'
import { CliError } from '../errors.js'
import { EXIT } from '../exit-codes.js'

interface SignInOptions {
  readonly server: Pick<Server, 'createToken'>
  /** Where the server is. */
  readonly url: string
  /** True where what is printed is seen by a person and not kept. */
  readonly isTerminal: boolean
  /** Where to write the address, or null. */
  readonly file: string | null
}

/** The ways to the address that signs in. */
export interface SignIn {
  /** To be printed; null where it must not be. */
  readonly url: string | null
  /** The file that holds it, or null. */
  readonly file: string | null
  /** Removes the file: its token ends with the process. */
  close(): Promise<void>
}

/** Makes a token for each way there is, so that each signs in once. */
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
    // Made anew, and not through a link that somebody has put there.
    const file = await open(path, 'wx', 0o600)
    try {
      await file.writeFile(text)
    } finally {
      await file.close()
    }
  } catch (cause) {
    throw new CliError(`the address to sign in with cannot be written to ${path}: ${(cause as Error).message}`, {
      exitCode: EXIT.usage,
      hint: 'give another place with --sign-in-file',
      cause,
    })
  }
}
