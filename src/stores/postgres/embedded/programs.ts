// Starts PostgreSQL's programs as a user that may run them.

import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process'
import { parse } from 'node:path'
import { HoldfastError } from '../../../core/errors.js'

/** As whom PostgreSQL's programs run. */
export interface Runner {
  /** For messages: "user postgres", "root in a user namespace". */
  readonly name: string
  /** A command and its arguments that go before the program; empty for none. */
  readonly prefix: readonly string[]
  /** The user to become; null stays who we are. */
  readonly user: { readonly uid: number; readonly gid: number } | null
}

/** Runs programs as who we are. */
export const OURSELVES: Runner = { name: 'this user', prefix: [], user: null }

/** Starts a program without waiting for it. */
export function startProgram(runner: Runner, command: readonly string[], options: SpawnOptions): ChildProcess {
  const [program, ...args] = [...runner.prefix, ...command]
  return spawn(program!, args, {
    // The caller's folder may be closed to the user the program runs as.
    cwd: parse(process.cwd()).root,
    env: plainEnvironment(),
    windowsHide: true,
    ...runner.user,
    ...options,
  })
}

/** The environment without PG* variables, which would override what we set, and with a locale that exists everywhere. */
function plainEnvironment(): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(([name]) => !name.startsWith('PG'))
  return { ...Object.fromEntries(kept), LC_ALL: 'C' }
}

/** How a program ended. */
interface Ending {
  /** Null when a signal ended it. */
  readonly code: number | null
  readonly output: string
}

/** Runs a program to its end; kills it when it takes longer than `timeoutMs`. Never rejects: what failed is in the output. */
export function runProgram(runner: Runner, command: readonly string[], timeoutMs: number): Promise<Ending> {
  return new Promise((resolve) => {
    const child = startProgram(runner, command, { stdio: ['ignore', 'pipe', 'pipe'] })
    let output = ''
    const timer = setTimeout(() => {
      output += `\nkilled after ${Math.round(timeoutMs)} ms`
      child.kill('SIGKILL')
    }, timeoutMs)
    for (const stream of [child.stdout, child.stderr]) {
      stream?.setEncoding('utf8').on('data', (text: string) => {
        output += text
      })
    }
    const settle = (code: number | null): void => {
      clearTimeout(timer)
      resolve({ code, output })
    }
    child.once('error', (error) => {
      output += `\n${explainSpawn(error)}`
      settle(null)
    })
    child.once('close', settle)
  })
}

/** Why a program could not even be started, in words that help. */
export function explainSpawn(error: NodeJS.ErrnoException): string {
  // The system says "no such file" also when the program is there and its loader is not.
  const hint = error.code === 'ENOENT' ? ' (the programs need glibc: Alpine and other musl systems lack it)' : ''
  return `${error.message}${hint}`
}

/** The error of a program that failed; it carries the program's last lines. */
export function programFailed(what: string, lines: string, retryable: boolean): HoldfastError {
  return new HoldfastError('store_unavailable', `${what}; its last lines:\n${lines}\n${adviceFor(lines)}`, {
    retryable,
  })
}

const ADVICE: readonly (readonly [RegExp, string])[] = [
  [/No space left/i, 'Free some disk space and start again.'],
  [/glibc|GLIBC/, 'Use a system with glibc (a Debian-based image), or a server of your own with a postgres:// URL.'],
  [/user does not exist/i, 'Give this user id a name, with a line in /etc/passwd, or run as a user that has one.'],
  [/Permission denied/i, 'Give this user access to what it names, or choose another folder.'],
  [/shared memory|semaphores/i, "Raise the system's limit it names, or stop other servers on this machine."],
]

function adviceFor(lines: string): string {
  const match = ADVICE.find(([pattern]) => pattern.test(lines))
  return match?.[1] ?? 'Repair what they name and start again, or use a server of your own with a postgres:// URL.'
}
