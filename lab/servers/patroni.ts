// A real cluster as many run it: two PostgreSQL 15 servers under Patroni, which keeps its state in etcd, behind HAProxy, which leads to the
// primary. All of them are Debian's, on loopback ports, and removed at the end.

import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { type Runner, startProgram } from '../../src/stores/postgres/embedded/programs.js'
import { freePort, newFolder, programsOf15 } from './postgres.js'
import { familyOf } from './process-family.js'

const ETCD = '/usr/bin/etcd'
const PATRONI = '/usr/bin/patroni'
const HAPROXY = '/usr/sbin/haproxy'
const START_MS = 90_000
const LOOK_MS = 100

interface PatroniNode {
  readonly name: string
  readonly port: number
  readonly restPort: number
  readonly data: string
  readonly child: ChildProcess
}

export class PatroniServers {
  readonly port: number
  readonly #folder: string
  readonly #nodes: readonly PatroniNode[]
  readonly #others: readonly ChildProcess[]

  private constructor(
    folder: string,
    port: number,
    { nodes, others }: { readonly nodes: readonly PatroniNode[]; readonly others: readonly ChildProcess[] },
  ) {
    this.#folder = folder
    this.port = port
    this.#nodes = nodes
    this.#others = others
  }

  /** Starts everything; the standby follows the primary. */
  static async open(): Promise<PatroniServers> {
    if (!hasPatroni()) {
      throw new Error(
        'this takes Patroni, etcd, HAProxy and PostgreSQL 15: run `node scripts/patroni.js --install` and `node scripts/postgres-15.js --install` as root on Debian',
      )
    }
    const { folder, runner } = await newFolder('holdfast-patroni-')
    const ports = await distinctPorts(7)
    const [etcdPort, peerPort, port, ...rest] = ports as [number, number, number, ...number[]]
    const others = [await startEtcd(runner, folder, etcdPort, peerPort)]
    const nodes: PatroniNode[] = []
    const servers = new PatroniServers(folder, port, { nodes, others })
    try {
      for (const [index, name] of ['a', 'b'].entries()) {
        const place = {
          name,
          port: rest[2 * index]!,
          restPort: rest[2 * index + 1]!,
          data: join(folder, `data-${name}`),
        }
        nodes.push({ ...place, child: await startPatroni(runner, folder, place, etcdPort) })
        // The first one makes the cluster.
        if (index === 0) await servers.#until(async () => (await servers.#leader()) !== null, 'no primary was made')
      }
      others.push(await startHaproxy(runner, folder, port, nodes))
      await servers.whenFollowed()
      return servers
    } catch (error) {
      const log = await servers.#logs()
      await servers.close()
      throw new Error(`${(error as Error).message}\n${log}`, { cause: error })
    }
  }

  /** The address that leads to the primary. */
  get url(): string {
    return urlOf(this.port)
  }

  /** Both servers' own addresses. */
  get urls(): readonly string[] {
    return this.#nodes.map(({ port }) => urlOf(port))
  }

  /** The primary's own address. */
  async primaryUrl(): Promise<string> {
    return urlOf((await this.#primary()).port)
  }

  /** The standby's own address. */
  async standbyUrl(): Promise<string> {
    const primary = await this.#primary()
    return urlOf(this.#nodes.find((node) => node !== primary)!.port)
  }

  /** Lets the standby receive nothing more, until the primary has ended. */
  async holdBack(): Promise<void> {
    const { rows } = await ask(await this.primaryUrl(), 'SELECT pid FROM pg_stat_replication')
    for (const { pid } of rows) process.kill(pid as number, 'SIGSTOP')
  }

  /** Kills every process of the primary. Patroni promotes the other server. */
  async crash(): Promise<void> {
    const { data } = await this.#primary()
    const pid = Number((await readFile(join(data, 'postmaster.pid'), 'utf8')).split('\n')[0])
    for (const one of await familyOf(pid)) {
      try {
        process.kill(one, 'SIGKILL')
      } catch {
        // It has ended meanwhile.
      }
    }
  }

  /** Has Patroni switch the roles. Resolves when it has begun to. */
  async switchOver(): Promise<void> {
    const primary = await this.#primary()
    const candidate = this.#nodes.find((node) => node !== primary)!
    const answer = await fetch(`http://127.0.0.1:${primary.restPort}/switchover`, {
      method: 'POST',
      body: JSON.stringify({ leader: primary.name, candidate: candidate.name }),
    })
    if (!answer.ok) throw new Error(`Patroni refused to switch over: ${answer.status} ${await answer.text()}`)
  }

  /** Resolves when the server that is no primary follows the one that is, and has everything. */
  async whenFollowed(): Promise<void> {
    await this.#until(async () => {
      const leader = await this.#leader()
      if (leader === null) return false
      const { rows } = await ask(
        urlOf(leader.port),
        "SELECT FROM pg_stat_replication WHERE state = 'streaming' AND replay_lsn >= pg_current_wal_flush_lsn() - 1000000::numeric",
      )
      return rows.length === 1 && (await isUp(`http://127.0.0.1:${leader.restPort}/primary`))
    }, 'no standby follows the primary')
  }

  async #primary(): Promise<PatroniNode> {
    const leader = await this.#leader()
    if (leader === null) throw new Error('there is no primary')
    return leader
  }

  async #leader(): Promise<PatroniNode | null> {
    for (const node of this.#nodes) {
      const answer = await ask(urlOf(node.port), 'SELECT pg_is_in_recovery() AS follows').catch(() => null)
      if (answer?.rows[0]?.follows === false && (await isUp(`http://127.0.0.1:${node.restPort}/primary`))) return node
    }
    return null
  }

  async #until(isSo: () => Promise<boolean>, otherwise: string): Promise<void> {
    for (const endMs = performance.now() + START_MS; performance.now() < endMs; await sleep(LOOK_MS)) {
      if (await isSo().catch(() => false)) return
    }
    throw new Error(`${otherwise} within ${START_MS} ms: ${await this.#logs()}`)
  }

  /** The last lines of what the programs said. */
  async #logs(): Promise<string> {
    const names = ['etcd.log', ...this.#nodes.map(({ name }) => `patroni-${name}.log`), 'haproxy.log']
    const texts = await Promise.all(
      names.map(async (name) => {
        const text = await readFile(join(this.#folder, name), 'utf8').catch(() => '')
        return `── ${name}\n${text.split('\n').slice(-15).join('\n')}`
      }),
    )
    return texts.join('\n')
  }

  async close(): Promise<void> {
    await Promise.all(this.#nodes.map(({ child }) => end(child, 'SIGKILL')))
    for (const { data } of this.#nodes) {
      const text = await readFile(join(data, 'postmaster.pid'), 'utf8').catch(() => '')
      for (const pid of text === '' ? [] : await familyOf(Number(text.split('\n')[0]))) {
        try {
          process.kill(pid, 'SIGKILL')
        } catch {
          // It has ended.
        }
      }
    }
    await Promise.all(this.#others.map((child) => end(child, 'SIGTERM')))
    await rm(this.#folder, { recursive: true, force: true, maxRetries: 5 })
  }
}

/** Whether Debian's packages are installed. */
function hasPatroni(): boolean {
  return [ETCD, PATRONI, HAPROXY].every((path) => existsSync(path)) && programsOf15() !== null
}

function urlOf(port: number): string {
  return `postgres://holdfast@127.0.0.1:${port}/postgres`
}

async function distinctPorts(count: number): Promise<readonly number[]> {
  const ports = new Set<number>()
  while (ports.size < count) ports.add(await freePort())
  return [...ports]
}

async function startEtcd(runner: Runner, folder: string, port: number, peerPort: number): Promise<ChildProcess> {
  const [own, peer] = [`http://127.0.0.1:${port}`, `http://127.0.0.1:${peerPort}`]
  const flags = {
    name: 'one',
    'data-dir': join(folder, 'etcd'),
    'listen-client-urls': own,
    'advertise-client-urls': own,
    'listen-peer-urls': peer,
    'initial-advertise-peer-urls': peer,
    'initial-cluster': `one=${peer}`,
    'unsafe-no-fsync': 'true',
  }
  const command = [ETCD, ...Object.entries(flags).map(([name, value]) => `--${name}=${value}`)]
  const child = await startLogged(runner, command, join(folder, 'etcd.log'))
  for (const endMs = performance.now() + START_MS; performance.now() < endMs; await sleep(LOOK_MS)) {
    if (await isUp(`${own}/health`)) return child
  }
  await end(child, 'SIGTERM')
  throw new Error(`etcd did not start: ${await readFile(join(folder, 'etcd.log'), 'utf8')}`)
}

async function startPatroni(
  runner: Runner,
  folder: string,
  { name, port, restPort, data }: Omit<PatroniNode, 'child'>,
  etcdPort: number,
): Promise<ChildProcess> {
  const settings = {
    scope: 'holdfast',
    name,
    restapi: { listen: `127.0.0.1:${restPort}`, connect_address: `127.0.0.1:${restPort}` },
    etcd3: { hosts: `127.0.0.1:${etcdPort}` },
    bootstrap: {
      dcs: {
        ...{ ttl: 20, loop_wait: 1, retry_timeout: 3 },
        // A standby that is behind is promoted, and a primary that crashed is not waited for: what this is about.
        ...{ maximum_lag_on_failover: 2 ** 40, master_start_timeout: 0 },
        postgresql: {
          use_slots: false,
          parameters: { max_connections: 200, shared_buffers: '128MB', wal_keep_size: '256MB', max_wal_size: '1GB' },
        },
      },
      initdb: [{ encoding: 'UTF8' }, { locale: 'C' }],
      pg_hba: ['host all,replication all 127.0.0.1/32 trust', 'local all all trust'],
    },
    postgresql: {
      ...{ listen: `127.0.0.1:${port}`, connect_address: `127.0.0.1:${port}` },
      ...{ data_dir: data, bin_dir: programsOf15(), pgpass: join(folder, `pgpass-${name}`) },
      authentication: { superuser: { username: 'holdfast' }, replication: { username: 'follower' } },
      parameters: { unix_socket_directories: folder },
      // Otherwise a copy waits for the next checkpoint, which may be minutes away.
      basebackup: [{ checkpoint: 'fast' }],
      // An old primary is made anew from the new one.
      ...{ remove_data_directory_on_diverged_timelines: true, remove_data_directory_on_rewind_failure: true },
    },
  }
  // JSON is YAML too.
  const file = join(folder, `patroni-${name}.yml`)
  await writeFile(file, JSON.stringify(settings))
  return startLogged(runner, [PATRONI, file], join(folder, `patroni-${name}.log`))
}

async function startHaproxy(
  runner: Runner,
  folder: string,
  port: number,
  nodes: readonly PatroniNode[],
): Promise<ChildProcess> {
  const file = join(folder, 'haproxy.cfg')
  const servers = nodes.map(({ name, port, restPort }) => `  server ${name} 127.0.0.1:${port} check port ${restPort}`)
  const lines = [
    'global',
    '  maxconn 1000',
    'defaults',
    '  mode tcp',
    '  timeout connect 4s',
    '  timeout client 30m',
    '  timeout server 30m',
    '  timeout check 5s',
    'listen primary',
    `  bind 127.0.0.1:${port}`,
    '  option httpchk OPTIONS /primary',
    '  http-check expect status 200',
    '  default-server inter 1s fall 3 rise 1 on-marked-down shutdown-sessions',
    ...servers,
    '',
  ]
  await writeFile(file, lines.join('\n'))
  return startLogged(runner, [HAPROXY, '-db', '-f', file], join(folder, 'haproxy.log'))
}

/** A program whose words go to a file: its pipes would outlive it in the servers that it starts. */
async function startLogged(runner: Runner, command: readonly string[], log: string): Promise<ChildProcess> {
  const child = startProgram(runner, ['sh', '-c', 'log=$0; exec "$@" >"$log" 2>&1', log, ...command], {
    stdio: 'ignore',
  })
  await once(child, 'spawn')
  return child
}

async function isUp(url: string): Promise<boolean> {
  try {
    return (await fetch(url, { signal: AbortSignal.timeout(2_000) })).ok
  } catch {
    return false
  }
}

async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = once(child, 'exit')
  child.kill(signal)
  await ended
}

async function ask(url: string, text: string): Promise<{ readonly rows: readonly Record<string, unknown>[] }> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 2_000, query_timeout: 5_000 })
  client.on('error', () => {})
  await client.connect()
  try {
    return await client.query(text)
  } finally {
    void client.end().catch(() => {})
  }
}
