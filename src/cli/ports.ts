// Listening on a port: what went wrong with it in words, and another one where the first is taken.

import { isHoldfastError } from '../core/errors.js'
import { CliError } from './errors.js'
import { EXIT } from './exit-codes.js'

interface Place {
  readonly port: number
  readonly host?: string
}

/** Runs what listens at a place; an error of the system says which place it was and what to do. */
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
        hint: 'choose another one, or 0 for any that is free',
        cause: error,
      })
    }
    if (code === 'EACCES') {
      throw new CliError(`this user may not listen on ${place}`, {
        exitCode: EXIT.usage,
        hint: 'choose a port from 1024 on, and put a proxy before it',
        cause: error,
      })
    }
    if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND' || code === 'EAI_AGAIN') {
      throw new CliError(`this machine has no address ${host ?? 'localhost'}`, {
        exitCode: EXIT.usage,
        hint: 'give one of its own, such as 127.0.0.1, or 0.0.0.0 for all of them',
        cause: error,
      })
    }
    throw error
  }
}

/** True when somebody else listens there. */
export function isTaken(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'EADDRINUSE'
}
