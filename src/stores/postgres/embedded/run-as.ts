// Decides as whom PostgreSQL runs. It refuses to run as root, so root needs a way around that leaves its folders alone.

import { chmod, chown, lchown, readdir, readFile, stat } from 'node:fs/promises'
import { userInfo } from 'node:os'
import { dirname, join } from 'node:path'
import { HoldfastError } from '../../../core/errors.js'
import type { Binaries } from './binaries.js'
import { type Layout, lastLines } from './folder.js'
import { OURSELVES, type Runner, runProgram } from './programs.js'

/** How root runs the server: in a user namespace, as an unprivileged user, or whichever works, in that order. */
export type AsRoot = 'auto' | 'namespace' | 'user'

/** Chooses who runs the programs; giveTo then hands over what that user needs. Raises `unsupported` when nobody can. */
export async function chooseRunner(layout: Layout, binaries: Binaries, asRoot: AsRoot): Promise<Runner> {
  const users = await readUsers()
  if (process.getuid?.() !== 0) return chooseForOrdinary(users, binaries)
  const obstacles: string[] = []
  for (const runner of await candidates({ layout, binaries, asRoot, users, obstacles })) {
    const blocked = await findBlocked(runner, layout, binaries)
    if (blocked === null) return runner
    obstacles.push(`${runner.name} may not enter ${blocked}`)
  }
  throw new HoldfastError(
    'unsupported',
    `PostgreSQL does not run as root, and no way around that works here: ${obstacles.join('; ')}. ` +
      'Do one of these: run as another user; allow user namespaces (in Docker: --security-opt seccomp=unconfined); ' +
      'choose a folder that the user "postgres" or "nobody" can reach; or use a server of your own with a postgres:// URL',
  )
}

/** A line of /etc/passwd. */
interface User {
  readonly name: string
  readonly uid: number
  readonly gid: number
}

async function readUsers(): Promise<readonly User[]> {
  const text = await readFile('/etc/passwd', 'utf8').catch(() => '')
  return text.split('\n').flatMap((line) => {
    const [name, , uid, gid] = line.split(':')
    return name && uid && gid ? [{ name, uid: Number(uid), gid: Number(gid) }] : []
  })
}

/** An ordinary user needs nothing, unless it has no name: containers are run under bare numbers, and initdb wants a name. */
async function chooseForOrdinary(users: readonly User[], binaries: Binaries): Promise<Runner> {
  if (process.platform !== 'linux' || hasName()) return OURSELVES
  const { runner } = await probeNamespace(users, binaries)
  return runner ?? OURSELVES
}

function hasName(): boolean {
  try {
    return userInfo().username !== ''
  } catch {
    return false
  }
}

interface Choice {
  readonly layout: Layout
  readonly binaries: Binaries
  readonly asRoot: AsRoot
  readonly users: readonly User[]
  readonly obstacles: string[]
}

async function candidates({ layout, binaries, asRoot, users, obstacles }: Choice): Promise<readonly Runner[]> {
  // PostgreSQL insists on being run by the owner of its data, so an owner other than root leaves no choice.
  const owner = await stat(layout.data).catch(() => null)
  if (owner !== null && owner.uid !== 0) return [asUser(`user ${owner.uid}`, owner)]
  const runners: Runner[] = []
  const namespace = await probeNamespace(users, binaries)
  if (asRoot !== 'user') {
    if (namespace.runner !== null) runners.push(namespace.runner)
    else obstacles.push(namespace.obstacle)
  }
  if (asRoot === 'namespace') return runners
  // Under sudo in somebody's home only that somebody gets in, besides root with its full powers.
  const { uid, gid } = await stat(dirname(layout.folder))
  if (uid !== 0) {
    const isNamed = users.some((user) => user.uid === uid)
    runners.push(asUser(`user ${uid}`, { uid, gid }, isNamed ? [] : namespace.runner?.prefix))
  }
  // The unprivileged users that systems have, PostgreSQL's own first.
  for (const name of ['postgres', 'nobody']) {
    const user = users.find((each) => each.name === name && each.uid > 0)
    if (user !== undefined) runners.push(asUser(`user ${name}`, user))
  }
  return runners
}

function asUser(name: string, { uid, gid }: { uid: number; gid: number }, prefix: readonly string[] = []): Runner {
  return { name, prefix, user: { uid, gid } }
}

type Probe = { readonly runner: Runner } | { readonly runner: null; readonly obstacle: string }

// One process asks once: the answer does not change while it runs.
let probe: Promise<Probe> | undefined

/** Tries whether a program can be run in a user namespace. */
function probeNamespace(users: readonly User[], binaries: Binaries): Promise<Probe> {
  probe ??= (async () => {
    if (process.platform !== 'linux') return { runner: null, obstacle: 'this system has no user namespaces' }
    const runner = inNamespace(users)
    const { code, output } = await runProgram(runner, [binaries.postgres, '--version'], 10_000)
    return code === 0 ? { runner } : { runner: null, obstacle: `user namespaces do not work (${lastLines(output)})` }
  })()
  return probe
}

// What the kernel shows for users that a namespace does not know: the last choice for a user that it does.
const UNKNOWN_UID = 65_534

/**
 * Inside the namespace we appear as another user, and our files as that user's; outside nothing changes. So
 * PostgreSQL is content, and every folder we own can be used as it is, also below one with mode 0700.
 */
function inNamespace(users: readonly User[]): Runner {
  // Any user will do that has a name, which initdb looks up.
  const { uid, gid } = users.find((user) => user.uid > 0 && user.gid > 0 && user.uid !== UNKNOWN_UID) ?? {
    uid: UNKNOWN_UID,
    gid: UNKNOWN_UID,
  }
  const prefix = ['unshare', '--user', `--map-user=${uid}`, `--map-group=${gid}`, '--']
  return { name: 'root in a user namespace', prefix, user: null }
}

/** The first folder in the runner's way, or null. */
async function findBlocked(runner: Runner, layout: Layout, binaries: Binaries): Promise<string | null> {
  // For another user the folder itself will be opened, so only what lies above it counts.
  const reach = runner.user === null ? layout.folder : dirname(layout.folder)
  const who = runner.user ?? { uid: 0, gid: 0 }
  return (await firstClosed(reach, who)) ?? (await firstClosed(dirname(binaries.postgres), who))
}

/** The topmost folder on the way to `path`, itself included, that the user may not enter; null when all are open. */
async function firstClosed(path: string, who: { readonly uid: number; readonly gid: number }): Promise<string | null> {
  const parent = dirname(path)
  const above = parent === path ? null : await firstClosed(parent, who)
  if (above !== null) return above
  // Root's power to enter everything does not reach into the namespace, so root is checked like anyone.
  const { uid, gid, mode } = await stat(path)
  const mayEnter = uid === who.uid ? mode & 0o100 : gid === who.gid ? mode & 0o010 : mode & 0o001
  return mayEnter ? null : path
}

/** Hands the paths, and everything below them, to the user the server runs as. Nothing to do unless root became another user. */
export async function giveTo(runner: Runner, layout: Layout, paths: readonly string[]): Promise<void> {
  if (runner.user === null) return
  const { uid, gid } = runner.user
  // Passing through is all that others get: the password stays readable for root only, and data for the server only.
  const { mode } = await stat(layout.folder)
  if ((await firstClosed(layout.folder, runner.user)) !== null) await chmod(layout.folder, (mode & 0o777) | 0o011)
  for (const path of paths) {
    if ((await stat(path)).uid === uid) continue
    for (const name of await readdir(path, { recursive: true }).catch(() => []))
      await lchown(join(path, name), uid, gid)
    // The top comes last: a kill in between leaves it with its old owner, and the next start does it all again.
    await chown(path, uid, gid)
  }
}
