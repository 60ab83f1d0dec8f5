// The settings of a chaos run: how much, how long, which faults. The forms are named settings.

import type { Mix } from '../gen/mix.js'
import type { RoleKind } from './postgres/roles.js'

/** Every kind of fault a run can have. */
export const FAULT_KINDS = [
  'kill worker',
  'kill after effect',
  'pause beyond lease',
  'pause within lease',
  'deploy',
  'second signal',
  'kill child',
  'kill supervisor',
  'exiting handler',
  'leaking handler',
  'spinning handler',
  'block event loop',
  'skew clock',
  'cut by reset',
  'cut by end',
  'refuse connections',
  'half-open link',
  'slow link',
  'lose answer to claim',
  'lose answer to settle',
  'lose answer to enqueue',
  'lose answer to commit',
  'terminate backends',
  'kill backend',
  'stop server',
  'lose notifications',
  'lock tables',
  'disk full',
  'clock ahead',
  'clock back',
  'dependency away',
  'poison burst',
  'killing payload',
  'stuck handler',
  'transaction outlives lease',
  'stranger holds key',
  'late commits under snapshot',
  'role: repeatable read',
  'role: serializable',
  'role: transaction timeout',
  'role: idle in transaction timeout',
  'role: statement timeout',
  'role: synchronous commit off',
  'demoted for a while',
  'switch servers',
  'flip roles',
  'fail over',
  'kill server',
  'stall server',
  'memory full',
  'kill clients',
  'pause clients',
  'replica away',
  'replication cut',
  'move slots',
] as const

export type FaultKind = (typeof FAULT_KINDS)[number]

/** The kinds for workers with children. */
export const HOST_KINDS: readonly FaultKind[] = [
  ...(['kill child', 'kill supervisor', 'exiting handler', 'leaking handler', 'spinning handler'] as const),
]

/** The kinds that Redis alone has. */
export const REDIS_KINDS: readonly FaultKind[] = [
  ...(['kill server', 'stall server', 'memory full', 'kill clients', 'pause clients', 'replica away'] as const),
  ...(['replication cut', 'move slots'] as const),
]

/** The kinds that need a standby. */
export const SWITCHES: readonly FaultKind[] = ['switch servers', 'flip roles', 'fail over']

/** What the run is on. */
type StoreName = 'postgres' | 'redis' | 'redis-cluster'

/** What an accepted job survives on Redis. PostgreSQL has one answer only. */
export type Durability = 'default' | 'replicated'

export interface ChaosSettings {
  readonly seed: number
  readonly store: StoreName
  readonly durability: Durability
  readonly workers: number
  readonly producers: number
  /** Jobs that must be accepted before the run may end. */
  readonly jobs: number
  /** Enqueue calls each second, over all producers. */
  readonly perSecond: number
  /** Over how long faults are spread. */
  readonly seconds: number
  /** How long after the end of all faults every job must have finished. */
  readonly drainSeconds: number
  readonly leaseMs: number
  readonly concurrency: number
  /** How many jobs a worker claims ahead of a free slot: all of them are lost with it when it is killed. */
  readonly prefetch: number
  /** How many children run the handlers of each worker; 0 for none. */
  readonly processes: number
  /** How many of the workers are behind PgBouncer in transaction mode, shared with a program of another schema. */
  readonly pooled: number
  /** How many of the workers find the server themselves, through sentinels or the nodes of a cluster: they have no link that can break. */
  readonly unlinked: number
  /** Over how many queues the generated load is spread. */
  readonly spread: number
  /** Whether there are days past their retention, with jobs that live. */
  readonly hasOldDays: boolean
  /** Whether jobs have groups and limits, which an operator keeps changing. */
  readonly hasFlow: boolean
  /** How many runs of this follow each other, each with its own seed and server. */
  readonly rounds: number
  /** How many faults of each kind. */
  readonly faults: Readonly<Partial<Record<FaultKind, number>>>
  readonly mix: Mix
  /** A mistake put into the product on purpose, by name; null for none. */
  readonly plant: string | null
}

const MIX: Mix = {
  shares: { fast: 0.72, slow: 0.175, flapping: 0.05, poison: 0.05, long: 0.005 },
  durationsMs: { fast: [1, 5], slow: [200, 2_000], flapping: [1, 20], poison: [1, 20], long: [2_500, 4_000] },
  failuresMax: 3,
  effects: { 'in transaction': 0.25, outside: 0.25 },
}

const SHORT_FAULTS: Readonly<Partial<Record<FaultKind, number>>> = {
  'kill worker': 12,
  'kill after effect': 6,
  'pause beyond lease': 5,
  'pause within lease': 6,
  deploy: 10,
  'second signal': 4,
  'block event loop': 4,
  'skew clock': 4,
  'cut by reset': 8,
  'cut by end': 6,
  'refuse connections': 4,
  'half-open link': 4,
  'slow link': 5,
  'lose answer to claim': 5,
  'lose answer to settle': 6,
  'lose answer to enqueue': 6,
  'lose answer to commit': 4,
  'terminate backends': 6,
  'kill backend': 1,
  'stop server': 2,
  'lose notifications': 3,
  'lock tables': 3,
  'disk full': 2,
  'dependency away': 3,
  'poison burst': 3,
  'killing payload': 2,
  'stuck handler': 3,
}

const ROLES: Readonly<Record<RoleKind, number>> = {
  'role: repeatable read': 1,
  'role: serializable': 1,
  'role: transaction timeout': 1,
  'role: idle in transaction timeout': 1,
  'role: statement timeout': 1,
  'role: synchronous commit off': 1,
}

/** Transactions of other programs, and faults of servers that have a standby. */
const NEIGHBOURS_FAULTS: Readonly<Partial<Record<FaultKind, number>>> = {
  ...ROLES,
  'transaction outlives lease': 3,
  'stranger holds key': 2,
  'late commits under snapshot': 2,
  'demoted for a while': 1,
  'switch servers': 1,
  'flip roles': 1,
  'fail over': 1,
}

const SHORT: Omit<ChaosSettings, 'seed'> = {
  store: 'postgres',
  durability: 'default',
  workers: 5,
  producers: 2,
  jobs: 20_000,
  perSecond: 300,
  seconds: 60,
  drainSeconds: 120,
  leaseMs: 2_000,
  concurrency: 40,
  prefetch: 1_000,
  processes: 0,
  pooled: 0,
  unlinked: 0,
  spread: 1,
  hasOldDays: false,
  hasFlow: false,
  rounds: 1,
  faults: SHORT_FAULTS,
  mix: MIX,
  plant: null,
}

/** Mostly short: the limits and the order are what takes time. */
const FLOW_MIX: Mix = {
  shares: { fast: 0.905, slow: 0.03, flapping: 0.05, poison: 0.012, long: 0.003 },
  durationsMs: { fast: [1, 8], slow: [50, 300], flapping: [1, 10], poison: [1, 10], long: [3_200, 4_000] },
  failuresMax: 2,
  effects: { 'in transaction': 0.06, outside: 0.06 },
}

const FLOW_FAULTS: Readonly<Partial<Record<FaultKind, number>>> = {
  'kill worker': 16,
  'kill after effect': 3,
  'pause beyond lease': 3,
  'pause within lease': 5,
  deploy: 6,
  'second signal': 3,
  'block event loop': 2,
  'skew clock': 2,
  'cut by reset': 10,
  'cut by end': 8,
  'refuse connections': 4,
  'half-open link': 2,
  'slow link': 4,
  'lose answer to claim': 5,
  'lose answer to settle': 6,
  'lose answer to enqueue': 5,
  'lose answer to commit': 3,
  'terminate backends': 6,
  'kill backend': 1,
  'stop server': 1,
  'lose notifications': 3,
  'lock tables': 2,
  'dependency away': 3,
  'poison burst': 2,
  'killing payload': 1,
  'stuck handler': 2,
  'transaction outlives lease': 1,
  'late commits under snapshot': 1,
  'role: repeatable read': 1,
  'role: serializable': 1,
  'fail over': 1,
}

/** As much as two cores hold with the faults beside it. What they can't hold piles up, and lateness says nothing then. */
const FLOW: Omit<ChaosSettings, 'seed'> = {
  ...SHORT,
  ...{ workers: 4, jobs: 8_000, perSecond: 100, seconds: 45, drainSeconds: 240, leaseMs: 3_000, pooled: 1 },
  ...{ hasFlow: true, faults: FLOW_FAULTS, mix: FLOW_MIX },
}

/** Effects that commit with their job need a database beside it. Slow jobs are shorter than on PostgreSQL: those that were running when their
 *  process was killed run alone afterwards, one after the other, and a run would end with minutes of that. */
const REDIS_MIX: Mix = {
  ...MIX,
  shares: { fast: 0.8, slow: 0.1, flapping: 0.05, poison: 0.045, long: 0.005 },
  durationsMs: { ...MIX.durationsMs, slow: [100, 800] },
  effects: { 'in transaction': 0, outside: 0.4 },
}

/** The faults of processes and of jobs, on every store. */
const PROCESS_FAULTS: Readonly<Partial<Record<FaultKind, number>>> = {
  'kill worker': 8,
  'kill after effect': 4,
  'pause beyond lease': 4,
  'pause within lease': 12,
  deploy: 6,
  'second signal': 3,
  'block event loop': 6,
  'skew clock': 2,
  'dependency away': 4,
  'poison burst': 4,
  'killing payload': 2,
  'stuck handler': 4,
}

const REDIS_FAULTS: Readonly<Partial<Record<FaultKind, number>>> = {
  ...PROCESS_FAULTS,
  'cut by reset': 8,
  'cut by end': 7,
  'refuse connections': 3,
  'half-open link': 2,
  'slow link': 4,
  'lose answer to claim': 4,
  'lose answer to settle': 5,
  'lose answer to enqueue': 5,
  'lose notifications': 3,
  'kill server': 1,
  'stop server': 1,
  'stall server': 2,
  'memory full': 1,
  'disk full': 1,
  'kill clients': 4,
  'pause clients': 2,
  'replica away': 1,
  'fail over': 1,
  'switch servers': 1,
}

/** As many calls a second as are accepted while the faults of the servers, which follow each other, are made. */
const REDIS: Omit<ChaosSettings, 'seed'> = {
  ...SHORT,
  ...{ store: 'redis', durability: 'replicated', mix: REDIS_MIX, unlinked: 1, faults: REDIS_FAULTS },
  ...{ seconds: 40, perSecond: 500, drainSeconds: 240 },
}

/** Nodes name each other's addresses, so that no process has a link of its own: what breaks links is done to the nodes' clients. */
const CLUSTER_FAULTS: Readonly<Partial<Record<FaultKind, number>>> = {
  ...PROCESS_FAULTS,
  'lose notifications': 10,
  'kill server': 1,
  'stop server': 1,
  'stall server': 2,
  'memory full': 1,
  'disk full': 1,
  'kill clients': 20,
  'pause clients': 4,
  'replica away': 2,
  'fail over': 1,
  'switch servers': 1,
  'flip roles': 1,
  'move slots': 1,
}

const CLUSTER: Omit<ChaosSettings, 'seed'> = {
  ...REDIS,
  ...{ store: 'redis-cluster', unlinked: 5, spread: 6, faults: CLUSTER_FAULTS },
}

/** The forms of a run. Two run with the tests: one breaks processes, links and one server; the other has strangers, strict roles,
 *  a pooler, a standby and old days. One takes long. One has handlers in children. Two have groups and limits; the longer one is many
 *  rounds, so that what is checked fits into memory. In one only the database's clock is wrong: it is separate because all times
 *  in a history come from this clock, and because under it alone no lease may be lost. */
export type Form =
  | ('short' | 'neighbours' | 'long' | 'host' | 'clock' | 'flow' | 'flow-long')
  | ('redis' | 'redis-cluster' | 'redis-default' | 'redis-long')

export const FORMS: Readonly<Record<Form, Omit<ChaosSettings, 'seed'>>> = {
  short: SHORT,
  neighbours: {
    ...SHORT,
    ...{
      workers: 4,
      jobs: 3_000,
      perSecond: 60,
      seconds: 50,
      drainSeconds: 240,
      prefetch: 20,
      pooled: 2,
      hasOldDays: true,
    },
    faults: { ...NEIGHBOURS_FAULTS, 'kill worker': 3, 'terminate backends': 2, 'lose answer to settle': 2 },
  },
  long: {
    ...SHORT,
    workers: 6,
    jobs: 500_000,
    perSecond: 600,
    seconds: 780,
    drainSeconds: 600,
    pooled: 2,
    hasOldDays: true,
    // The tablespace on the fillable disk has one place on a machine, and a standby needs a second one.
    faults: { ...times(SHORT_FAULTS, 5), 'disk full': 0, ...times(NEIGHBOURS_FAULTS, 4) },
  },
  host: {
    ...SHORT,
    ...{ workers: 2, jobs: 2_000, perSecond: 40, seconds: 45, drainSeconds: 240, prefetch: 20, processes: 2 },
    faults: {
      ...{ 'kill child': 10, 'kill supervisor': 3, 'exiting handler': 2, 'leaking handler': 1, 'spinning handler': 2 },
      ...{ 'pause beyond lease': 2, deploy: 2, 'second signal': 1, 'cut by reset': 3, 'lose answer to settle': 2 },
    },
  },
  flow: FLOW,
  'flow-long': {
    ...FLOW,
    ...{ rounds: 12, workers: 6, jobs: 42_000, perSecond: 400, seconds: 105, drainSeconds: 240 },
    faults: {
      ...times(FLOW_FAULTS, 2),
      ...{ 'kill worker': 90, 'fail over': 1, 'switch servers': 1, 'flip roles': 1, 'demoted for a while': 1 },
      ...ROLES,
    },
  },
  redis: REDIS,
  'redis-cluster': CLUSTER,
  // What Redis itself loses when a replica takes over that is behind.
  'redis-default': {
    ...REDIS,
    ...{ durability: 'default', jobs: 5_000, seconds: 20, perSecond: 200 },
    faults: {
      ...{ 'kill worker': 2, 'kill server': 1, 'stop server': 1, 'kill clients': 2, 'fail over': 1 },
      'replication cut': 2,
    },
  },
  'redis-long': {
    ...REDIS,
    ...{ rounds: 2, jobs: 101_000, seconds: 140, perSecond: 700, drainSeconds: 600 },
    // In the short form it takes a fifth of the time, until sentinels have made the former primary a replica; the one of the cluster has it.
    faults: { ...times(REDIS_FAULTS, 1.4), 'flip roles': 1 },
  },
  clock: {
    ...SHORT,
    workers: 3,
    jobs: 3_000,
    perSecond: 120,
    seconds: 24,
    faults: { 'clock ahead': 3, 'clock back': 3 },
  },
}

function times(faults: ChaosSettings['faults'], factor: number): ChaosSettings['faults'] {
  return Object.fromEntries(Object.entries(faults).map(([kind, count]) => [kind, Math.round(count * factor)]))
}

/** Whether the run is to have faults of the kind. */
export function has({ faults }: Pick<ChaosSettings, 'faults'>, kind: FaultKind): boolean {
  return (faults[kind] ?? 0) > 0
}
