// Experiment 16: another server takes over, again and again, under load. Nothing that was acknowledged is lost, and nothing runs twice
// because of it, while its producer and its worker live. What a killed producer alone knew is named.

import { mkdtemp, rm } from 'node:fs/promises'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { HoldfastError, show } from '../../src/core/errors.js'
import { connect, defineJob } from '../../src/index.js'
import { withClient } from '../bench/database.js'
import { type Cluster, PairCluster, WAYS, type Way } from '../failovers/cluster.js'
import { Parties } from '../failovers/parties.js'
import { PatroniCluster } from '../failovers/patroni-cluster.js'
import { type RoundPlan, type RoundTimes, runRound } from '../failovers/round.js'
import { type FailoverRow, rowOf, type ServerKind, showRow, summarize } from '../failovers/summary.js'
import { say } from '../say.js'
import { programsOf15 } from '../servers/postgres.js'
import { defineExperiment, type Experiment } from './experiment.js'

const KINDS: readonly ServerKind[] = ['pair', 'pair-15', 'patroni']

interface FailoversConfig extends RoundTimes {
  /** How many failovers there are with each kind of servers. */
  readonly rounds: Readonly<Record<ServerKind, number>>
  /** After how many failovers the servers are made anew. */
  readonly roundsOfCluster: number
  /** In one of how many failovers the producer is killed. */
  readonly killsOneIn: number
  readonly hasMemory: boolean
  /** The only way; null for all of them in turn. */
  readonly way: Way | null
}

const PATRONI_WAYS: readonly Way[] = ['crash', 'crash, behind', 'switchover']

export const failovers: Experiment = defineExperiment<FailoversConfig>({
  about:
    'failovers under load: nothing acknowledged is lost or runs twice while its producer lives; what a dead one knew is named',
  longTakes: '50 minutes',
  short: {
    // One of Patroni's takes half a minute, of which little is processor time.
    ...{
      rounds: { pair: 2, 'pair-15': 0, patroni: 1 },
      roundsOfCluster: 10,
      killsOneIn: 2,
      hasMemory: true,
      way: null,
    },
    ...{ perSecond: 200, beforeMs: 1_200, afterMs: 500, drainMs: 60_000 },
  },
  long: {
    ...{
      rounds: { pair: 90, 'pair-15': 88, patroni: 22 },
      roundsOfCluster: 10,
      killsOneIn: 5,
      hasMemory: true,
      way: null,
    },
    ...{ perSecond: 1_150, beforeMs: 1_500, afterMs: 1_500, drainMs: 60_000 },
  },
  hasOwnServers: true,
  canAdd: true,
  takes: ['failovers', 'servers', 'rate', 'way'],
  adjust(config, { failovers: wished, servers, rate, way }) {
    const rounds = wishedRounds(config.rounds, wished, servers)
    return { ...config, rounds, way: wishedWay(way), ...(rate === null ? {} : { perSecond: rate }) }
  },
  async run({ config, seed, earlier }) {
    const rows: FailoverRow[] = []
    for (const kind of KINDS) {
      const plans = planRounds(kind, config, seed)
      for (let from = 0; from < plans.length; from += config.roundsOfCluster) {
        const some = plans.slice(from, from + config.roundsOfCluster)
        await withCluster(kind, config, async (cluster, parties, version) => {
          for (const plan of some) {
            const result = await runRound({ cluster, parties, times: config }, plan)
            rows.push(rowOf(result, { kind, version, load: loadavg()[0]! }))
            say(`  ${rows.length} ${showRow(rows.at(-1)!)}`)
            await cluster.restore()
            await parties.replaceKilled()
          }
        })
      }
    }
    const planned = KINDS.reduce((sum, kind) => sum + config.rounds[kind], earlier.length)
    return summarize([...(earlier as FailoverRow[]), ...rows], { planned, perSecond: config.perSecond })
  },
})

function wishedRounds(
  rounds: FailoversConfig['rounds'],
  wished: number | null,
  servers: string | null,
): FailoversConfig['rounds'] {
  if (servers === null) {
    if (wished === null) return rounds
    // Patroni's failovers take longest; a tenth of them.
    const patroni = rounds.patroni === 0 ? 0 : Math.floor(wished / 10)
    const older = rounds['pair-15'] === 0 ? 0 : Math.floor((wished - patroni) / 2)
    return { pair: wished - patroni - older, 'pair-15': older, patroni }
  }
  const kind = KINDS.find((known) => known === servers)
  if (kind === undefined) {
    throw new HoldfastError('invalid_option', `servers must be pair, pair-15 or patroni, got ${show(servers)}`)
  }
  return { pair: 0, 'pair-15': 0, patroni: 0, [kind]: wished ?? Math.max(rounds[kind], 1) }
}

function wishedWay(wished: string | null): Way | null {
  if (wished === null) return null
  const way = WAYS.find((known) => known === wished)
  if (way !== undefined) return way
  throw new HoldfastError('invalid_option', `way must be ${WAYS.join('; or ')}, got ${show(wished)}`)
}

/** Each way in turn, so that a short run has as many of them as it can; the seed says which is first. */
function planRounds(
  kind: ServerKind,
  { rounds, killsOneIn, way }: FailoversConfig,
  seed: number,
): readonly RoundPlan[] {
  const ways = way !== null ? [way] : kind === 'patroni' ? PATRONI_WAYS : WAYS
  return Array.from({ length: rounds[kind] }, (_, index) => ({
    way: ways[(index + seed) % ways.length]!,
    // Not in step with the ways.
    kills: (index + Math.floor(index / ways.length)) % killsOneIn === killsOneIn - 1,
  }))
}

async function withCluster(
  kind: ServerKind,
  { hasMemory }: FailoversConfig,
  work: (cluster: Cluster, parties: Parties, version: string) => Promise<void>,
): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-failovers-'))
  const closing: (() => Promise<void>)[] = [() => rm(folder, { recursive: true, force: true })]
  try {
    const cluster = await openCluster(kind)
    closing.unshift(() => cluster.close())
    const version = await prepare(cluster)
    const parties = await Parties.open({ url: cluster.url, folder, hasMemory })
    closing.unshift(() => parties.close())
    await work(cluster, parties, version)
  } finally {
    for (const close of closing) await close()
  }
}

function openCluster(kind: ServerKind): Promise<Cluster> {
  if (kind === 'patroni') return PatroniCluster.open()
  if (kind === 'pair') return PairCluster.open(null)
  const programs = programsOf15()
  if (programs === null) {
    throw new HoldfastError(
      'unsupported',
      'pair-15 takes PostgreSQL 15: run `node scripts/postgres-15.js --install` as root on Debian',
    )
  }
  return PairCluster.open(programs)
}

/** Makes the tables and a schedule, and returns the server's version. */
async function prepare(cluster: Cluster): Promise<string> {
  const holdfast = await connect(cluster.primaryUrl, { upkeep: false })
  await holdfast.schedule('each', { cron: '* * * * * *', job: defineJob('work') })
  await holdfast.close()
  return withClient(cluster.primaryUrl, async (client) => {
    const { rows } = await client.query("SELECT current_setting('server_version') AS version")
    return (rows[0].version as string).split(' ')[0]!
  })
}
