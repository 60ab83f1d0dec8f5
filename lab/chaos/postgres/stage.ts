// A run on PostgreSQL: one server or two, a pooler, strangers, a witness made of triggers.

import { join } from 'node:path'
import pg from 'pg'
import type { Store } from '../../../src/core/store.js'
import { type Holdfast, openHoldfast } from '../../../src/holdfast.js'
import { postgresStore } from '../../../src/stores/postgres/index.js'
import { Recorder } from '../../gen/recorder.js'
import type { FinalDay, StoreEvent } from '../../history/events.js'
import type { PostgresServer } from '../../servers/postgres.js'
import { openStore } from '../open-store.js'
import { FaultProxy } from '../proxy.js'
import type { ChaosSettings } from '../settings.js'
import type { Stage, Traveller, Way } from '../stage.js'
import { readChanges, readFinal } from './collect.js'
import { FILLABLE, postgresMakers } from './faults.js'
import { Machine } from './machine.js'
import { Neighbour } from './neighbour.js'
import { enqueueOldJobs, hasOldDays, makeOldDays, readOldDays } from './old-days.js'
import { onServer } from './on-server.js'
import { Stranger } from './stranger.js'
import { WITNESS, watchSchema } from './watch.js'

const RETENTION_MS = 7 * 86_400_000
const PRUNES_MAX = 100
const SCHEMA = 'holdfast'

export class PostgresStage implements Stage {
  readonly schema: string = SCHEMA
  readonly effectsUrl = null
  readonly makers: Stage['makers']
  readonly #machine: Machine
  readonly #settings: ChaosSettings
  /** The links that lead to the server itself. */
  readonly #direct: FaultProxy[] = []
  #stranger: Stranger | null = null
  #neighbour: Neighbour | null = null

  private constructor(machine: Machine, settings: ChaosSettings) {
    this.#machine = machine
    this.#settings = settings
    this.makers = postgresMakers(() => ({
      machine,
      server: machine.server,
      stranger: this.#stranger!,
      schema: SCHEMA,
      links: this.#direct,
    }))
  }

  static async open(settings: ChaosSettings): Promise<PostgresStage> {
    return new PostgresStage(await Machine.open(settings), settings)
  }

  /** Whether a disk can be filled here. */
  get hasDisk(): boolean {
    return this.#machine.disk !== null
  }

  get operator(): Holdfast | null {
    return this.#stranger?.operator ?? null
  }

  async way({ kind, number }: Traveller): Promise<Way> {
    const { pooler } = this.#machine
    const isPooled = kind === 'worker' && pooler !== null && number <= this.#settings.pooled
    const link = await FaultProxy.open(isPooled ? pooler.port : this.#machine.server.port)
    if (!isPooled) this.#direct.push(link)
    return { url: link.url, link }
  }

  async prepare(setUp: (store: Store) => Promise<void>): Promise<void> {
    const { server, disk } = this.#machine
    if (disk !== null) {
      await server.adopt(disk.folder)
      const sql = new pg.Client({ connectionString: server.url })
      await sql.connect()
      await sql.query(`CREATE TABLESPACE ${FILLABLE} LOCATION '${disk.folder}'`)
      await sql.query(`ALTER ROLE holdfast SET default_tablespace = ${FILLABLE}`)
      await sql.end()
    }
    const store = await postgresStore(server.url, { schema: SCHEMA })
    // With a set clock, lock timeouts do not end on time (test/stores/clock-set-back.test.ts shows it). So the one step of the day
    // that takes locks which others wait for is done before.
    if (server.clock !== null) await pruneUntilDone(store)
    const sql = new pg.Client({ connectionString: server.url })
    await sql.connect()
    // The history table is on a disk that always has room.
    await sql.query("SET default_tablespace = ''")
    if (this.#settings.hasOldDays) await makeOldDays(sql, SCHEMA)
    await watchSchema(sql, SCHEMA)
    await sql.end()
    await setUp(store)
  }

  async enter({ folder, recorder }: { readonly folder: string; readonly recorder: Recorder }): Promise<void> {
    const { server, pooler } = this.#machine
    const settings = this.#settings
    if (settings.hasOldDays) await enqueueOldJobs(server, SCHEMA, { recorder, settings })
    this.#stranger = await openStranger(server, folder, settings.hasFlow)
    this.#direct.push(this.#stranger.proxy)
    if (pooler !== null) this.#neighbour = await Neighbour.open(pooler.url)
  }

  settled(): Promise<void> {
    return this.#machine.settled()
  }

  heal(): void {
    this.#stranger?.proxy.heal()
  }

  async now(): Promise<number> {
    const [row] = await this.#rows<{ now: number }>(
      'SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS now',
    )
    return row!.now
  }

  async probe(): Promise<void> {
    await onServer(
      () => this.#machine.server,
      (sql) => sql.query(`INSERT INTO ${WITNESS}.probes DEFAULT VALUES`),
    )
  }

  async hasFired(untilMs: number): Promise<boolean> {
    const [row] = await this.#rows<{ done: boolean }>(
      `SELECT coalesce(bool_and(last_at >= to_timestamp($1 / 1000.0)), true) AS done FROM "${SCHEMA}".schedules`,
      [untilMs],
    )
    return row?.done === true
  }

  async removeSchedules(): Promise<void> {
    await this.#rows(`DELETE FROM "${SCHEMA}".schedules`)
  }

  async left(): Promise<number | null> {
    const tables = ['ready', 'held', 'running', 'scheduled', 'blocked'].map(
      (table) => `(SELECT count(*) FROM "${SCHEMA}".${table})`,
    )
    const [row] = await this.#rows<{ left: number }>(`SELECT (${tables.join(' + ')})::float8 AS left`)
    return row?.left ?? null
  }

  async isPruned(): Promise<boolean> {
    if (!this.#settings.hasOldDays) return true
    return (await onServer(this.#machine.server, (sql) => hasOldDays(sql, SCHEMA))) === false
  }

  async leave(): Promise<void> {
    await Promise.all([this.#stranger?.close(), this.#neighbour?.close()])
    this.#stranger = null
    this.#neighbour = null
  }

  async *events(): AsyncGenerator<StoreEvent | FinalDay> {
    const sql = new pg.Client({ connectionString: this.#machine.server.url })
    await sql.connect()
    yield* readChanges(sql)
    yield* await readFinal(sql, SCHEMA)
    if (this.#settings.hasOldDays) yield* await readOldDays(sql, SCHEMA)
    await sql.end()
  }

  async #rows<R extends pg.QueryResultRow>(text: string, values: unknown[] = []): Promise<R[]> {
    const result = await onServer(this.#machine.server, (sql) => sql.query<R>(text, values))
    return result?.rows ?? []
  }

  async close(): Promise<void> {
    await this.leave().catch(() => {})
    await this.#machine.close()
  }
}

async function pruneUntilDone(store: Store): Promise<void> {
  for (let calls = 0; calls < PRUNES_MAX; calls++) {
    if ((await store.prune({ retentionMs: RETENTION_MS })).isDone) return
  }
  throw new Error(`pruning a new schema did not end within ${PRUNES_MAX} calls`)
}

async function openStranger(server: PostgresServer, folder: string, hasFlow: boolean): Promise<Stranger> {
  const proxy = await FaultProxy.open(server.port)
  const store = await openStore({ url: proxy.url, schema: SCHEMA, durability: 'default' })
  const holdfast = await openHoldfast(store, { upkeep: false, name: 'stranger' })
  const recorder = new Recorder(join(folder, 'stranger.jsonl'), { process: 'stranger', processRun: 1 })
  return new Stranger(holdfast, proxy, { recorder, hasFlow })
}
