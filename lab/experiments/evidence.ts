// What bounds a run: which connections waited for what on the server, sampled ten times a second; what was written and vacuumed;
// and which processes used processor time.

import { cpus } from 'node:os'
import pg from 'pg'
import { serverCpuUs, serverWaitedUs } from '../bench/resources.js'
import { readServer, type ServerCounters, subtractCounters, type TableChange } from './server-counters.js'
import type { SplitSummary } from './split.js'

/** How often connections of one purpose were seen waiting for one thing. */
export interface WaitCount {
  /** The connection's purpose, or the kind of a process of the server itself. */
  readonly who: string
  /** As in pg_stat_activity, such as 'LWLock'; 'CPU' when it waits only for a processor. */
  readonly type: string
  readonly event: string
  readonly seen: number
  /** How many connections were in it on average. */
  readonly average: number
}

/** Processor time in cores: 1 is one of them busy all the time. */
interface CpuUse {
  readonly machineCores: number
  readonly machineBusy: number
  readonly server: number | null
  readonly workers: number | null
  readonly producers: number | null
}

/** How many threads were ready to run and waited for a processor, on average. Null where that is not known. */
interface ProcessorWaits {
  readonly server: number | null
  readonly workers: number | null
  readonly producers: number | null
}

export interface Evidence {
  readonly seconds: number
  readonly waits: readonly WaitCount[]
  readonly counters: ServerCounters | null
  readonly tables: readonly TableChange[]
  readonly walBytesPerJob: number | null
  readonly cpu: CpuUse
  readonly waiting: ProcessorWaits
  /** Where the time of calls went, where they were timed by their parts. */
  readonly splits?: Readonly<Record<string, SplitSummary | null>>
}

const EVERY_MS = 100

const WAITS = `
SELECT CASE WHEN backend_type = 'client backend' THEN application_name ELSE backend_type END AS who,
       coalesce(wait_event_type, 'CPU') AS type, coalesce(wait_event, 'running') AS event, count(*)::integer AS count
  FROM pg_stat_activity
 WHERE pid <> pg_backend_pid()
   AND (backend_type = 'client backend' AND state = 'active' AND datname = current_database()
        OR backend_type <> 'client backend' AND wait_event_type IS DISTINCT FROM 'Activity'
           AND wait_event_type IS DISTINCT FROM 'Timeout')
 GROUP BY 1, 2, 3`

interface CpuReading {
  readonly idleMs: number
  readonly totalMs: number
}

/** Facts that the run itself knows at the end. */
export interface RunFacts {
  readonly jobs: number
  readonly workersCpuUs: number | null
  readonly producersCpuUs: number | null
  /** How long their main threads waited for a processor; absent where that was not read. */
  readonly workersWaitedUs?: number
  readonly producersWaitedUs?: number
}

/** Collects from `open` to `end`. */
export class EvidenceCollector {
  readonly #client: pg.Client
  readonly #serverPid: number | null
  readonly #waits = new Map<string, { who: string; type: string; event: string; seen: number }>()
  readonly #beganMs = performance.now()
  readonly #machine = readMachine()
  readonly #serverUs: number | null
  readonly #serverWaited: ReturnType<typeof serverWaitedUs> | null
  readonly #before: Awaited<ReturnType<typeof readServer>>
  #looks = 0
  #isOver = false
  #looking: Promise<void> = Promise.resolve()

  private constructor(client: pg.Client, serverPid: number | null, before: Awaited<ReturnType<typeof readServer>>) {
    this.#client = client
    this.#serverPid = serverPid
    this.#before = before
    this.#serverUs = serverPid === null ? null : serverCpuUs(serverPid)
    this.#serverWaited = serverPid === null ? null : serverWaitedUs(serverPid)
    this.#looking = this.#look()
  }

  static async open(url: string, serverPid: number | null): Promise<EvidenceCollector> {
    const client = new pg.Client({ connectionString: url, application_name: 'experiment evidence' })
    client.on('error', () => {})
    await client.connect()
    return new EvidenceCollector(client, serverPid, await readServer(client))
  }

  async #look(): Promise<void> {
    while (!this.#isOver) {
      const nextMs = performance.now() + EVERY_MS
      const { rows } = await this.#client.query<{ who: string; type: string; event: string; count: number }>({
        name: 'waits',
        text: WAITS,
      })
      this.#looks++
      for (const { who, type, event, count } of rows) {
        const name = `${who}|${type}|${event}`
        const known = this.#waits.get(name) ?? { who, type, event, seen: 0 }
        known.seen += count
        this.#waits.set(name, known)
      }
      await new Promise((resolve) => setTimeout(resolve, Math.max(1, nextMs - performance.now())))
    }
  }

  /** Ends it; `facts` are the run's own results. */
  async end({ jobs, workersCpuUs, producersCpuUs, workersWaitedUs, producersWaitedUs }: RunFacts): Promise<Evidence> {
    this.#isOver = true
    await this.#looking
    const after = await readServer(this.#client)
    await this.#client.end()
    const us = (performance.now() - this.#beganMs) * 1_000
    const serverUs = this.#serverPid === null ? null : serverCpuUs(this.#serverPid) - this.#serverUs!
    const machine = readMachine()
    const idle = (machine.idleMs - this.#machine.idleMs) / Math.max(1, machine.totalMs - this.#machine.totalMs)
    const counters = subtractCounters(this.#before.counters, after.counters)
    const share = (used: number | null) => (used === null ? null : used / us)
    return {
      seconds: us / 1e6,
      waits: [...this.#waits.values()]
        .map((wait) => ({ ...wait, average: wait.seen / Math.max(1, this.#looks) }))
        .sort((one, other) => other.seen - one.seen),
      counters,
      tables: after.tables.map((table) => {
        const before = this.#before.tables.find(({ name }) => name === table.name)
        return { ...table, autovacuums: table.autovacuums - (before?.autovacuums ?? 0) }
      }),
      walBytesPerJob: jobs === 0 ? null : counters.walBytes / jobs,
      cpu: {
        machineCores: cpus().length,
        machineBusy: (1 - idle) * cpus().length,
        server: share(serverUs),
        workers: share(workersCpuUs),
        producers: share(producersCpuUs),
      },
      waiting: {
        server: share(this.#serverPid === null ? null : waitedSince(this.#serverWaited!, this.#serverPid)),
        workers: share(workersWaitedUs ?? null),
        producers: share(producersWaitedUs ?? null),
      },
    }
  }
}

/** How long the server's processes have waited since a reading. One that has ended since is left out. */
function waitedSince(before: ReturnType<typeof serverWaitedUs>, serverPid: number): number {
  let sum = 0
  for (const [pid, waited] of serverWaitedUs(serverPid)) sum += waited - (before.get(pid) ?? 0)
  return sum
}

function readMachine(): CpuReading {
  const all = cpus().map(({ times }) => times)
  const total = all.reduce((sum, { user, nice, sys, idle, irq }) => sum + user + nice + sys + idle + irq, 0)
  return { idleMs: all.reduce((sum, { idle }) => sum + idle, 0), totalMs: total }
}
