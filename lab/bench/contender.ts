// What every queue in the benchmark can do. The measures are written once, against this.

/** Where the servers are. */
export interface Servers {
  readonly postgresUrl: string
  readonly redisPort: number | null
}

/** Features that a measure may need beyond enqueueing and running jobs. */
export type Feature =
  /** A key on each job prevents a duplicate. */
  | 'keys'
  /** What a handler returns is kept with its job. */
  | 'results'
  /** A failed job is run again immediately. */
  | 'retries'
  /** Finished jobs are kept. */
  | 'history'
  /** A backlog of a million jobs. */
  | 'depth'
  /** How long its claims take can be seen. */
  | 'claims'

/** One queue, opened in a process of its own. */
export interface Contender {
  /** Enqueues one job and resolves when the queue has accepted it. */
  enqueueOne(payload: object): Promise<void>
  /** Enqueues a batch in one call; with `keys`, one for each payload, under those. */
  enqueueMany(payloads: readonly object[], keys?: readonly string[]): Promise<void>
  /** Starts a worker whose handler only calls `onJob`: its return value is the job's result, an error fails the attempt. Resolves
   *  with the function that stops it. When that resolves, all handled jobs are settled. */
  startWorker(onJob: (payload: object) => unknown): Promise<() => Promise<void>>
  /** How long each claim that found jobs took, in milliseconds. Only if it was opened for that. */
  readonly claimsMs?: readonly number[]
  close(): Promise<void>
}

/** A contender's entry in the table. */
interface ContenderNote {
  readonly name: string
  readonly store: 'postgres' | 'redis'
  readonly version: string
  readonly settings: string
  /** What it does less than Holdfast, so that readers know what they compare. */
  readonly lacks: string
}

export interface ContenderModule {
  readonly note: ContenderNote
  /** The share of the usual backlog that it drains. Less than 1 only if all of it would take minutes and a shorter one is no
   *  disadvantage: rates are compared. */
  drainShare(feature: Feature | null): number
  /** Features that it lacks, or that can't be compared with the others, and why. */
  readonly cannot: Readonly<Partial<Record<Feature, string>>>
  /** Opens it, set up for the one feature that will be asked for. */
  open(servers: Servers, feature: Feature | null): Promise<Contender>
}
