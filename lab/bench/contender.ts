// What every queue in the benchmark can do. The measures are written once, against this.

/** Where the servers are. */
export interface Servers {
  readonly postgresUrl: string
  readonly redisPort: number | null
}

/** One queue, opened in a process of its own. */
export interface Contender {
  /** Enqueues one job and resolves when the queue calls it accepted. */
  enqueueOne(payload: object): Promise<void>
  /** Enqueues a batch in one call. */
  enqueueMany(payloads: readonly object[]): Promise<void>
  /** Starts a worker whose handler calls `onJob` and does nothing else. Resolves with how to stop it: what was handled
   *  has been settled when that resolves. */
  startWorker(onJob: (payload: object) => void): Promise<() => Promise<void>>
  close(): Promise<void>
}

/** What the table says about a queue. */
interface ContenderNote {
  readonly name: string
  readonly store: 'postgres' | 'redis'
  readonly version: string
  readonly settings: string
  /** What it does less than Holdfast, so that nobody compares what is not alike. */
  readonly lacks: string
}

export interface ContenderModule {
  readonly note: ContenderNote
  open(servers: Servers): Promise<Contender>
}
