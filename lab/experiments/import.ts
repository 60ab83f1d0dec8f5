// Moving in: jobs of each other queue are imported while its workers run and while the import is killed again and again. Each job runs once, there or here.

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { defineJob } from '../../src/client/define-job.js'
import { type Holdfast, openHoldfast } from '../../src/holdfast.js'
import type { ImportSystem } from '../../src/import/contract.js'
import type { ImportSummary } from '../../src/import/summary.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { installPeers, versionOf } from '../bench/contenders/peers.js'
import { withClient } from '../bench/database.js'
import { column } from '../bench/growth/measure.js'
import { RedisServer } from '../servers/redis.js'
import {
  defineExperiment,
  type Experiment,
  type ExperimentContext,
  type ExperimentResult,
  expectNone,
  expectThat,
  type Verdict,
} from './experiment.js'
import { nodeForPeers, PeerProcesses } from './import-peers.js'
import { type Ground, withGround } from './place.js'

interface ImportConfig {
  readonly waiting: number
  readonly delayed: number
  readonly failed: number
  readonly delayMs: number
  /** Of the old queue: processes, the slots of each, and how long a job takes. */
  readonly processes: number
  readonly slots: number
  readonly runMs: number
  readonly batch: number
  /** How often an import is killed, each about this long after its start. */
  readonly kills: number
  readonly killAfterMs: number
  readonly deadlineSeconds: number
}

const QUEUE = 'mail'
const CHILD = new URL('./import-peer-child.js', import.meta.url)
const MAIN = fileURLToPath(new URL('../../src/cli/main.js', import.meta.url))
const ROOT = fileURLToPath(new URL('../../..', import.meta.url))

/** `isApart`: the old queue is in another database than Holdfast. */
const CASES: readonly { readonly system: ImportSystem; readonly isApart: boolean }[] = [
  { system: 'bullmq', isApart: true },
  { system: 'pg-boss', isApart: false },
  { system: 'pg-boss', isApart: true },
  { system: 'graphile-worker', isApart: false },
  { system: 'graphile-worker', isApart: true },
]

export const imports: Experiment = defineExperiment<ImportConfig>({
  about: 'jobs imported from BullMQ, pg-boss and graphile-worker while their workers run: none lost, none run twice',
  longTakes: '10 minutes',
  short: {
    ...{ waiting: 400, delayed: 40, failed: 10, delayMs: 2_000, processes: 1, slots: 4, runMs: 20, batch: 20 },
    ...{ kills: 1, killAfterMs: 600, deadlineSeconds: 60 },
  },
  long: {
    ...{
      waiting: 100_000,
      delayed: 10_000,
      failed: 1_000,
      delayMs: 30_000,
      processes: 2,
      slots: 8,
      runMs: 20,
      batch: 500,
    },
    ...{ kills: 5, killAfterMs: 1_500, deadlineSeconds: 300 },
  },
  run,
})

async function run({ config, place }: ExperimentContext<ImportConfig>): Promise<ExperimentResult> {
  const node = nodeForPeers(ROOT)
  if (node === null) throw new Error('the newest peers need Node 22.18: run `node scripts/toolbox.js --install`')
  installPeers()
  const redis = await RedisServer.open()
  if (redis === null) throw new Error('redis-server is not installed: run `node scripts/redis.js --install` as root')
  const rows: Record<string, string | number | null>[] = []
  const verdicts: Verdict[] = []
  try {
    for (const one of CASES) {
      redis.empty()
      const seen = await withGround(
        place,
        async () => {},
        (ground) => move({ ...one, config, ground, redis, node }),
      )
      const name = `${one.system} ${versionOf(one.system)}${one.isApart ? '' : ', same database'}`
      rows.push({ from: name, ...seen.row })
      verdicts.push(...seen.verdicts.map((verdict) => ({ ...verdict, about: `${name}: ${verdict.about}` })))
    }
  } finally {
    await redis.close()
  }
  const { processes, slots, runMs, kills, batch } = config
  return {
    columns: COLUMNS,
    rows,
    verdicts,
    notes: [
      `Each old queue has ${processes} worker process${processes === 1 ? '' : 'es'} of its own with ${slots} slots on ${node === process.execPath ? 'this Node' : 'the Node of lab/toolbox'}; a job takes ${runMs} ms there. A worker of Holdfast with 16 slots runs beside them. Imports of ${batch} jobs a step are killed with SIGKILL ${kills} times, then one runs to its end, the old workers stop, and one more import brings over what was left. Every job writes its number down before anything else when it begins.`,
      'The rate is that of all imports together, with their starts and kills, while workers of both systems share two cores with the servers.',
    ],
    figures: {},
    samples: [],
    evidence: {},
  }
}

interface MoveContext {
  readonly system: ImportSystem
  readonly isApart: boolean
  readonly config: ImportConfig
  readonly ground: Ground
  readonly redis: RedisServer
  readonly node: string
}

interface Moved {
  readonly row: Record<string, string | number | null>
  readonly verdicts: readonly Verdict[]
}

async function move(context: MoveContext): Promise<Moved> {
  const { system, isApart, config, ground, redis, node } = context
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-import-'))
  const url = isApart && system !== 'bullmq' ? await otherDatabase(ground) : ground.url
  const { slots, runMs } = config
  const assignment = { system, url, schema: 'old', redisPort: redis.port, queue: QUEUE, slots, runMs }
  const peer = new PeerProcesses(CHILD, node, { ...assignment, record: join(folder, 'begun') })
  const holdfast = await openHoldfast(await postgresStore(ground.url))
  const here: number[] = []
  try {
    await peer.fill({ ...config, schedule: false, edge: true })
    const worker = holdfast.worker({ queues: [QUEUE, 'default'], concurrency: 16, handlers: handlersFor(here) })
    await worker.start()
    await Promise.all(Array.from({ length: config.processes }, () => peer.work()))
    const from = system === 'bullmq' ? ['--from', redis.url] : ['--from', url, '--from-schema', 'old']
    const importer = new Importer(['import', system, ...from, '--batch', String(config.batch)], ground.url)
    const startedMs = performance.now()
    for (let kill = 0; kill < config.kills; kill++) await importer.runAndKill(config.killAfterMs)
    const whole = await importer.run()
    const seconds = (performance.now() - startedMs) / 1_000
    await peer.stop()
    const last = await importer.run()
    const wanted = config.waiting + config.delayed
    await until(config, () => peer.begun().length + here.length >= wanted)
    const { dead } = await holdfast.stats()
    await requeueAll(holdfast, config, () => peer.begun().length + here.length >= wanted + config.failed)
    await worker.stop()
    return judge(context, { there: peer.begun(), here, dead, seconds, summaries: [whole, last] })
  } finally {
    await peer.stop()
    await holdfast.close()
    await rm(folder, { recursive: true, force: true })
    if (url !== ground.url) await dropDatabase(ground, url)
  }
}

function handlersFor(here: number[]) {
  return [QUEUE, 'noop'].map((type) =>
    defineJob<{ n: number }>(type).handle(async ({ n }) => {
      here.push(n)
    }),
  )
}

/** Runs the command. */
class Importer {
  readonly #args: readonly string[]
  readonly #url: string

  constructor(args: readonly string[], url: string) {
    this.#args = args
    this.#url = url
  }

  /** To its end. Raises when it fails. */
  async run(): Promise<ImportSummary> {
    const child = this.#start()
    const texts = { stdout: '', stderr: '' }
    child.stdout!.setEncoding('utf8').on('data', (text: string) => (texts.stdout += text))
    child.stderr!.setEncoding('utf8').on('data', (text: string) => (texts.stderr += text))
    const [code] = await once(child, 'close')
    if (code !== 0) throw new Error(`the import ended with ${code}: ${texts.stderr}`)
    return JSON.parse(texts.stdout)
  }

  /** Kills it at some time after its start, unless it has ended. */
  async runAndKill(afterMs: number): Promise<void> {
    const child = this.#start()
    child.stdout!.resume()
    child.stderr!.resume()
    const ended = once(child, 'close')
    await Promise.race([sleep(afterMs * (0.5 + Math.random())), ended])
    child.kill('SIGKILL')
    await ended
  }

  #start(): ChildProcess {
    const env = { ...process.env, HOLDFAST_URL: this.#url, HOLDFAST_SCHEMA: 'holdfast' }
    return spawn(process.execPath, [MAIN, ...this.#args, '--json'], { env, stdio: ['ignore', 'pipe', 'pipe'] })
  }
}

async function until({ deadlineSeconds }: ImportConfig, isSo: () => boolean): Promise<void> {
  const untilMs = performance.now() + deadlineSeconds * 1_000
  // What is missing then is counted as lost.
  while (!isSo() && performance.now() < untilMs) await sleep(100)
  // A second run of a job would come now.
  await sleep(1_000)
}

async function requeueAll(holdfast: Holdfast, config: ImportConfig, isSo: () => boolean): Promise<void> {
  const filter = { states: ['dead'] as const }
  for (
    let page = await holdfast.list({ filter, limit: 200 });
    page.jobs.length > 0;
    page = await holdfast.list({ filter, limit: 200 })
  ) {
    for (const { id } of page.jobs) await holdfast.requeue(id)
  }
  await until(config, isSo)
}

interface Seen {
  readonly there: readonly number[]
  readonly here: readonly number[]
  readonly dead: number
  readonly seconds: number
  readonly summaries: readonly ImportSummary[]
}

function judge({ config }: MoveContext, { there, here, dead, seconds, summaries }: Seen): Moved {
  const jobs = config.waiting + config.delayed + config.failed
  const runs = new Map<number, number>()
  for (const n of [...there, ...here]) runs.set(n, (runs.get(n) ?? 0) + 1)
  const lost = jobs - runs.size
  const twice = [...runs.values()].filter((count) => count > 1).length
  const again = summaries
    .flatMap((summary) => Object.values(summary.jobs))
    .reduce((sum, { alreadyThere }) => sum + alreadyThere, 0)
  return {
    row: {
      ...{ jobs, there: there.length, here: here.length, dead, again, seconds },
      perSecond: here.length / seconds,
    },
    verdicts: [
      expectNone('jobs lost', lost),
      expectNone('jobs that ran more than once', twice),
      expectThat('failed jobs that were dead here', String(config.failed), String(dead), dead === config.failed),
      expectThat(
        'jobs run there and here',
        'some each',
        `${there.length} and ${here.length}`,
        there.length > 0 && here.length > 0,
      ),
    ],
  }
}

async function otherDatabase(ground: Ground): Promise<string> {
  const url = new URL(ground.url)
  url.pathname = `${url.pathname}_old`
  await ground.client.query(`CREATE DATABASE ${url.pathname.slice(1)}`)
  return url.href
}

async function dropDatabase(ground: Ground, url: string): Promise<void> {
  await withClient(ground.url, (client) => client.query(`DROP DATABASE ${new URL(url).pathname.slice(1)} WITH (FORCE)`))
}

const COLUMNS = [
  column('from', 'from'),
  column('jobs', 'jobs'),
  column('run there', 'there'),
  column('run here', 'here'),
  column('dead, then requeued', 'dead'),
  column('written before a kill', 'again'),
  column('s', 'seconds', 1),
  column('imported/s', 'perSecond'),
]
