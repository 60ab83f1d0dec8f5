// What every queue in the benchmark can do. The measures are written once, against this.

/** Where the servers are. */
export interface Servers {
  readonly postgresUrl: string
  readonly redisPort: number | null
}

/** What a measure may ask of a queue beyond taking jobs and giving them. */
export type Feature =
  /** A key on each job keeps a second one away. */
  | 'keys'
  /** What a handler returns is kept with its job. */
  | 'results'
  /** A job that failed is run again at once. */
  | 'retries'

/** One queue, opened in a process of its own. */
export interface Contender {
  /** Enqueues one job and resolves when the queue calls it accepted. */
  enqueueOne(payload: object): Promise<void>
  /** Enqueues a batch in one call; with `keys`, one for each payload, under those. */
  enqueueMany(payloads: readonly object[], keys?: readonly string[]): Promise<void>
  /** Starts a worker whose handler calls `onJob` and does nothing else: what it returns is the job's result, what it throws
   *  fails the attempt. Resolves with how to stop it: what was handled has been settled when that resolves. */
  startWorker(onJob: (payload: object) => unknown): Promise<() => Promise<void>>
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
  /** The share of the usual backlog that it drains. Less than 1 only where all of it would take minutes and where a shorter one
   *  does it no harm: rates are compared. */
  drainShare(feature: Feature | null): number
  /** Features it has not got in a form that could be measured beside the others, and why. */
  readonly cannot: Readonly<Partial<Record<Feature, string>>>
  /** Opens it, set up for the one feature that will be asked for. */
  open(servers: Servers, feature: Feature | null): Promise<Contender>
}
