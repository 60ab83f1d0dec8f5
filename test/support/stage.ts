// A test's stage: a client on a server, a schema of its own, and worker processes on the same.

import pg from 'pg'
import { FaultProxy } from '../../lab/chaos/proxy.js'
import { connect, type Holdfast } from '../../src/index.js'
import { testServerUrl } from './postgres.js'
import { Processes, type WorkerConfig, type WorkerProcess } from './processes.js'

let count = 0

export class Stage {
  readonly config: { readonly url: string; readonly schema: string }
  readonly holdfast: Holdfast
  readonly processes: Processes
  readonly #proxies: FaultProxy[] = []
  readonly #clients: pg.Client[] = []

  private constructor(config: { url: string; schema: string }, holdfast: Holdfast, processes: Processes) {
    this.config = config
    this.holdfast = holdfast
    this.processes = processes
  }

  /** Opens a stage on the shared server, or on another. The client here does no upkeep: the workers must. */
  static async open(url: string = testServerUrl()): Promise<Stage> {
    const schema = `stage_${process.pid}_${++count}`
    const holdfast = await connect(url, { schema, upkeep: false })
    return new Stage({ url, schema }, holdfast, await Processes.open())
  }

  startWorker(config: Partial<WorkerConfig> = {}, nodeOptions: readonly string[] = []): Promise<WorkerProcess> {
    return this.processes.start({ ...this.config, ...config }, nodeOptions)
  }

  async openProxy(): Promise<FaultProxy> {
    const proxy = await FaultProxy.open(Number(new URL(this.config.url).port))
    this.#proxies.push(proxy)
    return proxy
  }

  /** The server's time in milliseconds. */
  async storeNow(): Promise<number> {
    const { rows } = await (await this.sql()).query('SELECT extract(epoch FROM clock_timestamp()) * 1000 AS ms')
    return Number(rows[0].ms)
  }

  /** A plain connection, for looking beneath. */
  async sql(): Promise<pg.Client> {
    const client = new pg.Client({ connectionString: this.config.url })
    client.on('error', () => {})
    await client.connect()
    this.#clients.push(client)
    return client
  }

  async close(): Promise<void> {
    await this.processes.close()
    await Promise.all(this.#proxies.map((proxy) => proxy.close()))
    await this.holdfast.close()
    await Promise.all(this.#clients.map((client) => client.end().catch(() => {})))
    const client = new pg.Client({ connectionString: this.config.url })
    await client.connect()
    await client.query(`DROP SCHEMA IF EXISTS ${this.config.schema} CASCADE`)
    await client.end()
  }
}
