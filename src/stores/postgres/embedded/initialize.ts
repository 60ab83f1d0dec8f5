// Makes the data folder: aside first, then put in place by one rename, so it is never seen half made.

import { randomBytes } from 'node:crypto'
import { chown, mkdir, open, readdir, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { HoldfastError } from '../../../core/errors.js'
import type { Binaries } from './binaries.js'
import { pause, remainingMs } from './deadline.js'
import { checkData, type Layout, lastLines, placePassword, readPassword } from './folder.js'
import { isAlive } from './postmaster.js'
import { programFailed, type Runner, runProgram } from './programs.js'

/** The server's superuser. */
export const USER = 'holdfast'

// Attempts are named for the process that makes them, so that those of dead processes can be recognised and removed.
const ATTEMPT = /^\.init-(\d+)-[0-9a-f]+$/
// No attempt lasts this long: it is over even when a stranger has its process number by now.
const ATTEMPT_AGE_MS_MAX = 60 * 60_000
// initdb takes about a second. Waiting for somebody else's saves the work; doing it twice does no harm.
const OTHERS_WAIT_MS_MAX = 15_000

/** Makes the data folder and its password, unless another process does so first. Raises `store_unavailable` when initdb fails. */
export async function initialize(layout: Layout, binaries: Binaries, runner: Runner, deadline: number): Promise<void> {
  const name = `.init-${process.pid}-${randomBytes(4).toString('hex')}`
  const attempt = join(layout.folder, name)
  await mkdir(attempt, { mode: 0o700 })
  try {
    await removeDeadAttempts(layout)
    if (await isMadeByOthers(layout, binaries, name, deadline)) return
    await placePassword(layout, join(attempt, 'draft'), randomBytes(32).toString('base64url'))
    await runInitdb({ layout, binaries, runner, deadline }, attempt)
    await putInPlace(layout, binaries, join(attempt, 'data'))
    // The initdb of a dead attempt may have gone on writing for a moment after its folder was first removed.
    await removeDeadAttempts(layout)
  } finally {
    await rm(attempt, { recursive: true, force: true, maxRetries: 3 }).catch(() => {})
  }
}

async function removeDeadAttempts(layout: Layout): Promise<void> {
  for (const name of await readdir(layout.folder)) {
    const pid = ATTEMPT.exec(name)?.[1]
    if (pid === undefined) continue
    const path = join(layout.folder, name)
    const madeAt = (await stat(path).catch(() => null))?.mtimeMs ?? 0
    if (isAlive(Number(pid)) && Date.now() - madeAt < ATTEMPT_AGE_MS_MAX) continue
    // Its initdb may still be writing, and ends when it finds its files gone; what is left all the same goes at the next start.
    await rm(path, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 }).catch(() => {})
  }
}

/** Waits while an attempt that sorts before ours is under way; true when the data folder is there afterwards. */
async function isMadeByOthers(layout: Layout, binaries: Binaries, ours: string, deadline: number): Promise<boolean> {
  const until = Math.min(deadline, performance.now() + OTHERS_WAIT_MS_MAX)
  for (;;) {
    if (await checkData(layout, binaries)) return true
    // An order that all agree on, so that no two wait for each other.
    const isOurTurn = !(await readdir(layout.folder)).some((name) => {
      const pid = ATTEMPT.exec(name)?.[1]
      return pid !== undefined && name < ours && isAlive(Number(pid))
    })
    if (isOurTurn || performance.now() > until) return false
    await pause(20)
  }
}

interface Making {
  readonly layout: Layout
  readonly binaries: Binaries
  readonly runner: Runner
  readonly deadline: number
}

async function runInitdb({ layout, binaries, runner, deadline }: Making, attempt: string): Promise<void> {
  // A copy, because it must belong to the user that runs initdb, and the real one must not.
  const passwordCopy = join(attempt, 'password')
  await writeFile(passwordCopy, await readPassword(layout), { mode: 0o600 })
  if (runner.user !== null) {
    for (const path of [attempt, passwordCopy]) await chown(path, runner.user.uid, runner.user.gid)
  }
  const command = [
    binaries.initdb,
    `--pgdata=${join(attempt, 'data')}`,
    `--username=${USER}`,
    `--pwfile=${passwordCopy}`,
    '--auth=scram-sha-256',
    '--encoding=UTF8',
    // PostgreSQL's own collation: the system's may change its order under the indexes with any update.
    '--locale=C',
    '--locale-provider=builtin',
    '--builtin-locale=C.UTF-8',
    // See settings.ts: it would break initdb as well.
    '--set=huge_pages=off',
    '--no-instructions',
  ]
  const { code, output } = await runProgram(runner, command, remainingMs(deadline))
  if (code === 0) return
  throw programFailed(`PostgreSQL could not be set up in ${layout.folder}: initdb failed`, lastLines(output), false)
}

async function putInPlace(layout: Layout, binaries: Binaries, made: string): Promise<void> {
  try {
    // Fails when the place is taken, by which exactly one of several attempts succeeds.
    await rename(made, layout.data)
  } catch (cause) {
    if (await checkData(layout, binaries)) return
    throw new HoldfastError(
      'store_unavailable',
      `${layout.data} could not be put in place: ${(cause as Error).message}`,
      {
        cause,
      },
    )
  }
  if (process.platform !== 'win32') await syncFolder(layout.folder)
}

/** Makes a rename survive a power cut. Without it jobs could be accepted into a folder that is gone afterwards. */
async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r')
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}
