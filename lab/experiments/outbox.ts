// Experiment 17: jobs of PostgreSQL transactions go to Redis through an outbox, while processes die between every two steps and Redis is away
// or loses its last writes. Each job whose transaction committed is done once, and no other.

import { spawnSync } from 'node:child_process'
import { connect } from '../../src/index.js'
import { Child } from '../bench/children.js'
import { column } from '../bench/growth/measure.js'
import { say } from '../say.js'
import { RedisServer } from '../servers/redis.js'
import { Relay } from '../servers/relay.js'
import { defineExperiment, type Experiment, type ExperimentContext, expectNone, expectThat } from './experiment.js'
import type { OutboxAssignment } from './outbox-child.js'
import { STEPS, type Step } from './outbox-steps.js'
import { type Ground, withGround } from './place.js'
import { pause } from './proof.js'

const CHILD = new URL('./outbox-child.js', import.meta.url)
const CHILD_MS = 3_600_000

interface OutboxConfig {
  /** Of which every second is rolled back. */
  readonly transactions: number
  readonly rate: number
  readonly workers: number
  readonly open: number
  /** A producer is killed this often. */
  readonly killEveryMs: number
  /** How long Redis is away. */
  readonly downMs: number
  /** How long Redis takes writes that it then loses. */
  readonly lossMs: number
  readonly deadlineMs: number
  /** At how many of the steps processes must have died. */
  readonly stepsMin: number
}

export const outbox: Experiment = defineExperiment<OutboxConfig>({
  about:
    'jobs of PostgreSQL transactions on Redis, through an outbox: each done once, whoever dies and whatever Redis loses',
  longTakes: '5 minutes',
  short: {
    ...{ transactions: 600, rate: 120, workers: 2, open: 8, killEveryMs: 1_500 },
    ...{ downMs: 1_000, lossMs: 400, deadlineMs: 60_000, stepsMin: 2 },
  },
  long: {
    ...{ transactions: 12_000, rate: 80, workers: 3, open: 16, killEveryMs: 5_000 },
    ...{ downMs: 30_000, lossMs: 1_000, deadlineMs: 300_000, stepsMin: STEPS.length },
  },
  run: (context) =>
    withGround(
      context.place,
      async (client) => {
        await client.query(TABLES)
      },
      (ground) => observe(context, ground),
    ),
})

const TABLES = `
CREATE SCHEMA outbox_run;
CREATE SEQUENCE outbox_run.begun;
CREATE TABLE outbox_run.orders (seq integer PRIMARY KEY, id uuid NOT NULL UNIQUE);
CREATE TABLE outbox_run.effects (seq integer NOT NULL, id uuid NOT NULL)`

const FOUND = `
SELECT (SELECT last_value FROM outbox_run.begun)::integer AS begun,
       (SELECT count(*) FROM outbox_run.orders)::integer AS committed,
       (SELECT count(*) FROM outbox_run.effects)::integer AS effects,
       (SELECT count(*) FROM outbox_run.orders
         WHERE NOT EXISTS (SELECT FROM outbox_run.effects WHERE effects.id = orders.id))::integer AS lost,
       (SELECT count(*) - count(DISTINCT id) FROM outbox_run.effects)::integer AS doubled,
       (SELECT count(*) FROM outbox_run.effects
         WHERE NOT EXISTS (SELECT FROM outbox_run.orders WHERE orders.id = effects.id))::integer AS ghosts`

interface Found {
  readonly begun: number
  readonly committed: number
  readonly effects: number
  readonly lost: number
  readonly doubled: number
  readonly ghosts: number
}

async function observe({ config, place }: ExperimentContext<OutboxConfig>, ground: Ground) {
  const { transactions, downMs, lossMs, deadlineMs } = config
  const servers = await openServers()
  const crew = new Crew(config, { redis: servers.url, postgres: ground.url })
  try {
    // The tables are made before anybody has to be quick.
    await (await connect(servers.url, { outbox: ground.url, upkeep: false })).close()
    crew.start()
    const untilBegun = async (share: number) => {
      while ((await find(ground)).begun < transactions * share) await pause(100)
    }
    let lostByRedis = 0
    const lose = async (how: (sentSince: () => Promise<number>) => Promise<number>) => {
      const [since] = (await ground.client.query('SELECT clock_timestamp()::text AS at')).rows
      const sentSince = async () => {
        const text = 'SELECT count(*)::integer AS count FROM holdfast.outbox WHERE sent_at > $1'
        return (await ground.client.query(text, [since.at])).rows[0].count as number
      }
      lostByRedis += await how(sentSince)
    }
    await untilBegun(0.25)
    say(`  Redis goes away for ${downMs / 1_000} s`)
    await servers.away(downMs)
    await untilBegun(0.5)
    say('  Redis restarts without its last writes')
    await lose((sentSince) => servers.restart(lossMs, sentSince))
    await untilBegun(0.75)
    say('  a replica takes over that lacks the last writes')
    await lose((sentSince) => servers.failOver(lossMs, sentSince))
    await untilBegun(1)
    await crew.endProducers()
    const endMs = performance.now() + deadlineMs
    let found = await find(ground)
    while (found.lost > 0 && performance.now() < endMs) {
      await pause(200)
      found = await find(ground)
    }
    // What would still run twice has the time of a lease and of a retry for it.
    await pause(5_000)
    found = await find(ground)
    const left = await leftIn(servers.url, ground.url)
    const repeats = (
      await ground.client.query('SELECT (max(number) - 1)::integer AS count FROM holdfast.outbox_epochs')
    ).rows[0]
    const { stepsMin } = config
    return {
      columns: COLUMNS,
      rows: [
        {
          ...found,
          rolledBack: found.begun - found.committed,
          producersKilled: crew.producersKilled,
          sendersKilled: [...crew.deaths.values()].reduce((sum, count) => sum + count, 0),
          lostByRedis,
        },
      ],
      verdicts: [
        expectNone('committed jobs that were not done', found.lost),
        expectNone('jobs that were done twice', found.doubled),
        expectNone('jobs of transactions that did not commit', found.ghosts),
        expectNone('rows that still wait, and jobs that are not finished', left),
        expectThat(
          `steps of ${STEPS.length} at which processes died`,
          `at least ${stepsMin}`,
          String(crew.deaths.size),
          crew.deaths.size >= stepsMin,
        ),
        expectThat(
          'Redis came back as another, or with less',
          'at least 3 times',
          String(repeats.count),
          repeats.count >= 3,
        ),
        expectThat('Redis lost jobs that it had taken', 'at least 1', String(lostByRedis), lostByRedis > 0),
      ],
      notes: [
        `PostgreSQL ${place.version}; deaths by step: ${[...crew.deaths].map(([step, count]) => `${step} ${count}`).join(', ')}`,
      ],
      figures: {},
      samples: [],
      evidence: {},
    }
  } finally {
    await crew.end()
    await servers.close()
  }
}

async function find({ client }: Ground): Promise<Found> {
  const { rows } = await client.query(FOUND)
  return rows[0] as Found
}

/** What is not finished. */
async function leftIn(redis: string, postgres: string): Promise<number> {
  const holdfast = await connect(redis, { outbox: postgres, upkeep: false })
  try {
    const [{ ready, running, retrying, scheduled, dead }, { outbox: rows }] = await Promise.all([
      holdfast.stats(),
      holdfast.health(),
    ])
    return ready + running + retrying + scheduled + dead + (rows?.waiting ?? 1)
  } finally {
    await holdfast.close()
  }
}

/** The processes. One that dies is replaced by another, which dies at the next step. */
class Crew {
  readonly deaths = new Map<Step, number>()
  producersKilled = 0
  readonly #config: OutboxConfig
  readonly #where: Pick<OutboxAssignment, 'redis' | 'postgres'>
  readonly #children = new Set<Child>()
  #producer: Child | null = null
  #producing: Promise<void> = Promise.resolve()
  #next = 0
  #isOver = false
  #isProduced = false

  constructor(config: OutboxConfig, where: Pick<OutboxAssignment, 'redis' | 'postgres'>) {
    this.#config = config
    this.#where = where
  }

  start(): void {
    // One lives on: what waits is sent, whatever becomes of the others.
    void this.#work(null)
    for (let worker = 1; worker < this.#config.workers; worker++) void this.#work(STEPS[this.#next++ % STEPS.length]!)
    this.#producing = this.#produce()
    void this.#killProducers()
  }

  #child(role: OutboxAssignment['role'], diesAt: Step | null): Child {
    const { transactions: until, rate, open } = this.#config
    const assignment: OutboxAssignment = { ...this.#where, role, diesAt, until, rate, open }
    const child = new Child(CHILD, assignment, { name: `${role} of the outbox`, deadlineMs: CHILD_MS })
    this.#children.add(child)
    void child.ended().then(() => this.#children.delete(child))
    return child
  }

  async #work(diesAt: Step | null): Promise<void> {
    let step = diesAt
    while (!this.#isOver) {
      const child = this.#child('work', step)
      const died = await Promise.race([child.hear('never').catch((error: Error) => error), child.ended()])
      if (this.#isOver) return
      const isKilled = died instanceof Error ? died.message.includes('SIGKILL') : true
      if (isKilled && step !== null) {
        this.deaths.set(step, (this.deaths.get(step) ?? 0) + 1)
        step = STEPS[this.#next++ % STEPS.length]!
      }
      // Redis may be away: it could not even start.
      await pause(200)
    }
  }

  async #produce(): Promise<void> {
    while (!this.#isProduced && !this.#isOver) {
      this.#producer = this.#child('produce', null)
      await this.#producer.hear('done').then(
        () => {
          this.#isProduced = true
        },
        () => pause(200),
      )
    }
  }

  async #killProducers(): Promise<void> {
    while (!this.#isProduced && !this.#isOver) {
      const producer = this.#producer
      // One that is still starting has nothing to lose. It may also have ended, because Redis was away.
      const isUp = await producer?.hear('begun').then(
        () => true,
        () => false,
      )
      if (producer === null || !isUp) {
        await pause(100)
        continue
      }
      await pause(this.#config.killEveryMs)
      if (this.#isProduced) return
      this.producersKilled++
      await producer.kill()
    }
  }

  endProducers(): Promise<void> {
    return this.#producing
  }

  async end(): Promise<void> {
    this.#isOver = true
    await Promise.all([...this.#children].map((child) => child.kill()))
  }
}

interface Servers {
  readonly url: string
  away(ms: number): Promise<void>
  restart(lossMs: number, sentSince: () => Promise<number>): Promise<number>
  failOver(lossMs: number, sentSince: () => Promise<number>): Promise<number>
  close(): Promise<void>
}

// Without an append-only file a server comes back as its last snapshot was: what it took since is lost, as in a failover to a replica that lags.
async function openServers(): Promise<Servers> {
  const flags = { appendonly: 'no', 'repl-diskless-sync-delay': '0' }
  const first = await openOne(flags)
  const all = [first]
  const relay = await Relay.open(first.port)
  let current = first
  const restartAfter = async (downMs: number) => {
    await current.kill()
    await pause(downMs)
    await current.start()
  }
  return {
    url: `redis://127.0.0.1:${relay.port}`,
    async away(ms) {
      current.snapshot()
      await restartAfter(ms)
    },
    async restart(lossMs, sentSince) {
      current.snapshot()
      await pause(lossMs)
      const lost = await sentSince()
      await restartAfter(0)
      return lost
    },
    async failOver(lossMs, sentSince) {
      const replica = await openOne({ ...flags, replicaof: `127.0.0.1 ${current.port}` })
      all.push(replica)
      while (!info(replica, 'replication').includes('master_link_status:up')) await pause(50)
      redisCli(replica, 'replicaof', 'no', 'one')
      const before = await sentSince()
      await pause(lossMs)
      const lost = (await sentSince()) - before
      await current.kill()
      current = replica
      relay.retarget(replica.port)
      return lost
    },
    async close() {
      await relay.close()
      await Promise.all(all.map((server) => server.close()))
    },
  }
}

async function openOne(flags: Readonly<Record<string, string>>): Promise<RedisServer> {
  const server = await RedisServer.open(flags)
  if (server === null) throw new Error('redis-server is not installed: run `node scripts/redis.js --install` as root')
  return server
}

function redisCli(server: RedisServer, ...words: string[]): string {
  return spawnSync('redis-cli', ['-p', String(server.port), ...words], { encoding: 'utf8' }).stdout
}

function info(server: RedisServer, section: string): string {
  return redisCli(server, 'info', section)
}

const COLUMNS = [
  column('transactions', 'begun'),
  column('committed', 'committed'),
  column('not committed', 'rolledBack'),
  column('producers killed', 'producersKilled'),
  column('senders killed', 'sendersKilled'),
  column('lost by Redis', 'lostByRedis'),
  column('done', 'effects'),
  column('lost', 'lost'),
  column('twice', 'doubled'),
  column('ghosts', 'ghosts'),
]
