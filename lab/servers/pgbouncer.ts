// A real PgBouncer in front of a PostgreSQL server, on a loopback port.

import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { startProgram } from '../../src/stores/postgres/embedded/programs.js'
import { freePort, newFolder } from './postgres.js'

const PROGRAM = '/usr/sbin/pgbouncer'
const START_MS = 10_000

export interface PgBouncerOptions {
  /** The port of the server behind it. */
  readonly target: number
  /** Default 'transaction'. */
  readonly mode?: 'session' | 'transaction' | 'statement'
  /** Connections to the server for each pair of user and database. Default 4. */
  readonly poolSize?: number
  /** Who may connect; none is asked for a password. Default: holdfast alone. */
  readonly users?: readonly string[]
  /** The password all of them have on the server. Default: none is asked for there. */
  readonly password?: string
  /** Settings of the section [pgbouncer] beside the usual ones, such as `ignore_startup_parameters: 'options'`. */
  readonly settings?: Readonly<Record<string, string>>
}

export class PgBouncer {
  readonly port: number
  readonly #folder: string
  readonly #child: ChildProcess
  readonly #options: PgBouncerOptions

  private constructor(folder: string, port: number, child: ChildProcess, options: PgBouncerOptions) {
    this.#folder = folder
    this.port = port
    this.#child = child
    this.#options = options
  }

  static async open(options: PgBouncerOptions): Promise<PgBouncer> {
    if (!hasPgBouncer()) {
      throw new Error(
        'this takes PgBouncer: run `apt-get install -y pgbouncer` as root (`npm run ci` does it on Debian)',
      )
    }
    const { folder, runner } = await newFolder('holdfast-pgbouncer-')
    const port = await freePort()
    await configure(folder, port, options)
    const child = startProgram(runner, [PROGRAM, join(folder, 'ini')], { stdio: 'ignore' })
    const pooler = new PgBouncer(folder, port, child, options)
    await pooler.#isListening()
    return pooler
  }

  get url(): string {
    return `postgres://holdfast@127.0.0.1:${this.port}/postgres`
  }

  /** Sends all clients to another server from now on. Clients keep their connections; server connections to the old one end with
   *  their transaction. */
  async retarget(target: number): Promise<void> {
    await configure(this.#folder, this.port, { ...this.#options, target })
    this.#child.kill('SIGHUP')
  }

  async close(): Promise<void> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) {
      const ended = once(this.#child, 'exit')
      this.#child.kill('SIGTERM')
      await ended
    }
    await rm(this.#folder, { recursive: true, force: true })
  }

  async #isListening(): Promise<void> {
    const endsAt = performance.now() + START_MS
    for (;;) {
      const socket = connect(this.port, '127.0.0.1')
      const isOpen = await Promise.race([
        once(socket, 'connect').then(
          () => true,
          () => false,
        ),
        once(this.#child, 'exit').then(() => null),
      ])
      socket.destroy()
      if (isOpen === true) return
      if (isOpen === null || performance.now() > endsAt) {
        const log = await readFile(join(this.#folder, 'log'), 'utf8').catch(() => '')
        await this.close()
        throw new Error(`PgBouncer did not start: ${log}`)
      }
      await sleep(20)
    }
  }
}

/** Whether Debian's package pgbouncer is installed. */
function hasPgBouncer(): boolean {
  return existsSync(PROGRAM)
}

async function configure(folder: string, port: number, options: PgBouncerOptions): Promise<void> {
  const { target, mode = 'transaction', poolSize = 4, users = ['holdfast'], password = '', settings = {} } = options
  const all: Record<string, string> = {
    listen_addr: '127.0.0.1',
    listen_port: String(port),
    unix_socket_dir: '',
    auth_type: 'trust',
    auth_file: join(folder, 'users'),
    logfile: join(folder, 'log'),
    pool_mode: mode,
    default_pool_size: String(poolSize),
    max_client_conn: '1000',
    ...settings,
  }
  const lines = Object.entries(all).map(([name, value]) => `${name} = ${value}`)
  const ini = ['[databases]', `* = host=127.0.0.1 port=${target}`, '[pgbouncer]', ...lines, '']
  await writeFile(join(folder, 'users'), users.map((user) => `"${user}" "${password}"\n`).join(''))
  await writeFile(join(folder, 'ini'), ini.join('\n'))
}
