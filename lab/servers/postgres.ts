// A real PostgreSQL server on a loopback port that can be started, stopped and killed. It is removed at the end.

import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { chown, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Binaries, findBinaries } from '../../src/stores/postgres/embedded/binaries.js'
import type { Layout } from '../../src/stores/postgres/embedded/folder.js'
import { type Runner, runProgram, startProgram } from '../../src/stores/postgres/embedded/programs.js'
import { chooseRunner } from '../../src/stores/postgres/embedded/run-as.js'
import { faketimeLibrary, ServerClock } from './server-clock.js'

export interface ServerOptions {
  /** Folder with initdb and postgres. Default: the ones the package brings. */
  readonly programs?: string
  /** The password of the user holdfast, asked for at each connection. Default: none is asked for. */
  readonly password?: string
  /** Server settings beside the usual ones. */
  readonly settings?: Readonly<Record<string, string>>
  /** True gives it a clock that can be set. Needs Debian's libfaketime. */
  readonly hasClock?: boolean
}

const START_MS = 60_000

export class PostgresServer {
  readonly folder: string
  readonly port: number
  readonly #programs: string
  readonly #runner: Runner
  #settings: Readonly<Record<string, string>>
  /** Null for a server with the machine's own clock. */
  clock: ServerClock | null = null
  #child: ChildProcess | null = null

  private constructor(
    folder: string,
    port: number,
    programs: string,
    runner: Runner,
    settings: Readonly<Record<string, string>>,
  ) {
    this.folder = folder
    this.port = port
    this.#programs = programs
    this.#runner = runner
    this.#settings = settings
  }

  static async open(options: ServerOptions = {}): Promise<PostgresServer> {
    const { folder, layout, runner, binaries } = await newFolder('holdfast-test-')
    const programs = options.programs ?? join(binaries.initdb, '..')
    const server = new PostgresServer(folder, await freePort(), programs, runner, options.settings ?? {})
    const { password } = options
    if (password !== undefined) await writeFile(layout.password, password)
    const auth = password === undefined ? ['-A', 'trust'] : ['-A', 'scram-sha-256', '--pwfile', layout.password]
    const command = [join(programs, 'initdb'), '-D', layout.data, '-U', 'holdfast', '-N', '--no-locale', '-E', 'UTF8']
    const made = await runProgram(runner, [...command, ...auth], START_MS)
    if (made.code !== 0) throw new Error(`initdb failed: ${made.output}`)
    if (options.hasClock === true) server.clock = await openClock(folder)
    await server.start()
    return server
  }

  /**
   * A server on a copy of another's files, which may be running: `fill` is called with the folder its data belong in, and the
   * server is not started.
   */
  static async besides(other: PostgresServer, fill: (data: string) => Promise<void>): Promise<PostgresServer> {
    const { folder, layout, runner } = await newFolder('holdfast-test-')
    await fill(layout.data)
    return new PostgresServer(folder, await freePort(), other.#programs, runner, other.#settings)
  }

  get url(): string {
    return `postgres://holdfast@127.0.0.1:${this.port}/postgres`
  }

  get data(): string {
    return join(this.folder, 'data')
  }

  /** Settings for the next start, beside those it has. */
  change(settings: Readonly<Record<string, string>>): void {
    this.#settings = { ...this.#settings, ...settings }
  }

  /** Runs a command as the user the server runs as. */
  async run(command: readonly string[]): Promise<void> {
    const { code, output } = await runProgram(this.#runner, command, START_MS)
    if (code !== 0) throw new Error(`${command[0]} ended with ${code}: ${output}`)
  }

  /** The process id of the running server. */
  get pid(): number {
    if (this.#child?.pid === undefined) throw new Error('the server does not run')
    return this.#child.pid
  }

  get isRunning(): boolean {
    return this.#child !== null
  }

  /** Starts the server and waits until it takes connections; replays its log after a crash. */
  async start(): Promise<void> {
    const settings = {
      port: String(this.port),
      listen_addresses: '127.0.0.1',
      unix_socket_directories: '',
      max_connections: '400',
      shared_buffers: '128MB',
      autovacuum_naptime: '5s',
      ...this.#settings,
    }
    const flags = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
    const command = [join(this.#programs, 'postgres'), '-D', this.data, ...flags]
    const options = { stdio: ['ignore', 'ignore', 'pipe'] as ['ignore', 'ignore', 'pipe'] }
    const environment = this.clock === null ? {} : { env: { ...process.env, LC_ALL: 'C', ...this.clock.environment } }
    const child = startProgram(this.#runner, command, { ...options, ...environment })
    this.#child = child
    let said = ''
    await new Promise<void>((resolve, reject) => {
      child.stderr!.on('data', (chunk) => {
        if (said.length < 100_000) said += chunk
        if (/ready to accept (read-only )?connections/.test(String(chunk))) resolve()
      })
      child.once('exit', (code) => reject(new Error(`postgres ended with ${code}: ${said}`)))
    })
    child.removeAllListeners('exit')
  }

  /** Gives a folder to the user the server runs as. */
  async adopt(folder: string): Promise<void> {
    const { user } = this.#runner
    if (user !== null) await chown(folder, user.uid, user.gid)
  }

  /** SIGQUIT ends it immediately as `-m immediate` does, SIGINT in order, SIGKILL as a crash. */
  async stop(signal: 'SIGQUIT' | 'SIGINT' | 'SIGKILL' = 'SIGQUIT'): Promise<void> {
    const child = this.#child
    if (child === null || child.exitCode !== null || child.signalCode !== null) return
    this.#child = null
    const ended = once(child, 'exit')
    child.kill(signal)
    await ended
  }

  async close(): Promise<void> {
    await this.stop('SIGQUIT')
    await rm(this.folder, { recursive: true, force: true, maxRetries: 5 })
  }
}

interface Folder {
  readonly folder: string
  readonly layout: Layout
  readonly binaries: Binaries
  readonly runner: Runner
}

/** A temporary folder, and the user who may run PostgreSQL's programs in it. */
export async function newFolder(prefix: string): Promise<Folder> {
  const folder = await mkdtemp(join(tmpdir(), prefix))
  const binaries = await findBinaries({ platform: process.platform, arch: process.arch })
  const layout = {
    folder,
    data: join(folder, 'data'),
    socket: folder,
    password: join(folder, 'password'),
    log: join(folder, 'log'),
  }
  return { folder, layout, binaries, runner: await chooseRunner(layout, binaries, 'auto') }
}

function openClock(folder: string): Promise<ServerClock> {
  const library = faketimeLibrary()
  if (library === null)
    throw new Error('a server with a clock of its own takes libfaketime: run `apt-get install -y libfaketime` as root')
  return ServerClock.open(library, folder)
}

/** A port that is free at this moment. */
export async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const { port } = probe.address() as { port: number }
  probe.close()
  return port
}

/** The programs of PostgreSQL 15 as Debian installs them, or null. */
export function programsOf15(): string | null {
  const folder = '/usr/lib/postgresql/15/bin'
  return existsSync(join(folder, 'postgres')) ? folder : null
}
