// The short form of every experiment, as the built command runs it, on the server of the test run. Promises are asserted; speed is
// not.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, type TestContext, test } from 'vitest'
import type { Evidence } from '../../lab/experiments/evidence.js'
import { testServerUrl } from '../support/postgres.js'

const MAIN = join(import.meta.dirname, '..', '..', 'dist', 'src', 'cli', 'main.js')
const PATIENCE_MS = 300_000

interface Document {
  readonly experiment: string
  readonly form: string
  readonly seed: number
  readonly ok: boolean
  readonly date: string
  readonly machine: { readonly cores: number }
  readonly versions: { readonly holdfast: string; readonly postgres: string }
  readonly settings: { readonly config: object }
  readonly rows: readonly Readonly<Record<string, string | number | null>>[]
  readonly evidence: Readonly<Record<string, Evidence>>
  readonly verdicts: readonly {
    readonly kind: string
    readonly about: string
    readonly seen: string
    readonly holds: boolean
  }[]
}

// Two at a time: each starts its own processes and needs a share of the machine.
const AT_ONCE = 2
let underWay = 0
const waiting: (() => void)[] = []

async function inTurn<T>(work: () => Promise<T>): Promise<T> {
  if (underWay === AT_ONCE) await new Promise<void>((resolve) => waiting.push(resolve))
  else underWay++
  try {
    return await work()
  } finally {
    const next = waiting.shift()
    if (next === undefined) underWay--
    else next()
  }
}

async function run({ onTestFinished }: TestContext, args: readonly string[]) {
  const child = spawn(process.execPath, [MAIN, 'experiment', ...args], { stdio: ['ignore', 'pipe', 'pipe'] })
  onTestFinished(() => {
    child.kill('SIGKILL')
  })
  let [stdout, stderr] = ['', '']
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
  })
  const [code] = await once(child, 'close')
  return { code: code as number | null, stdout, stderr }
}

/** Runs the short form and returns its document, after checking what holds for all of them. */
async function runShort(
  context: TestContext,
  name: string,
  more: readonly string[] = [],
  { hasFigure = true, isOnServer = true } = {},
): Promise<Document> {
  const out = await mkdtemp(join(tmpdir(), 'holdfast-experiment-test-'))
  context.onTestFinished(() => rm(out, { recursive: true, force: true }))
  const server = isOnServer ? ['--url', testServerUrl()] : []
  const args = [name, '--short', '--seed', '7', '--json', ...server, '--out', out, ...more]
  const { code, stdout, stderr } = await inTurn(() => run(context, args))
  expect(code, stderr).toBe(0)
  const document = JSON.parse(stdout) as Document
  expect(document).toMatchObject({ experiment: name, form: 'short', seed: 7, ok: true })
  expect(document.rows.length).toBeGreaterThan(0)
  expect(document.verdicts.filter(({ kind, holds }) => kind === 'promise' && !holds)).toEqual([])
  expect(document.versions.postgres).not.toBe('')
  const files = readdirSync(out)
  expect(files).toContain(`${name}.json`)
  expect(files.some((file) => file.endsWith('.svg'))).toBe(hasFigure)
  return document
}

function keptPromises({ verdicts }: Document): readonly string[] {
  return verdicts.filter(({ kind, holds }) => kind === 'promise' && holds).map(({ about }) => about)
}

describe.concurrent('experiments, in short', { timeout: PATIENCE_MS }, () => {
  test('lease: jobs longer than the lease run again without extension, and once with it', async (context) => {
    const document = await runShort(context, 'lease')

    const [off, on] = document.rows
    expect(off!.again).toBeGreaterThan(0)
    expect(on).toMatchObject({ again: 0, takenBack: 0, succeeded: on!.accepted })
  })

  test('job-loss: killed workers lose no accepted job and double no effect', async (context) => {
    const document = await runShort(context, 'job-loss')

    expect(keptPromises(document)).toEqual(
      expect.arrayContaining([
        'workers were killed in the middle of jobs',
        'accepted jobs that neither succeeded nor are in the dead-letter queue',
        'effects applied more than once',
        'jobs that succeeded without their effect',
      ]),
    )
  })

  test('shutdown: jobs in flight at SIGTERM finish or run elsewhere, and none is settled twice', async (context) => {
    const document = await runShort(context, 'shutdown')

    const [row] = document.rows
    expect(row!.inFlight).toBeGreaterThan(0)
    expect(Number(row!.finished) + Number(row!.released)).toBe(row!.inFlight)
    expect(keptPromises(document)).toContain('jobs whose success was settled twice')
  })

  test('sustained: as many jobs of the mix end as were accepted', async (context) => {
    const chosen = ['--minutes', '0.05', '--rate', '200', '--processes', '1', '--slots', '300']
    const document = await runShort(context, 'sustained', chosen)

    expect(document.settings.config).toMatchObject({ minutes: 0.05, rate: 200, processes: 1, slots: 300 })
    expect(keptPromises(document)).toEqual(
      expect.arrayContaining(['as many ended as were accepted', 'jobs die only of used-up attempts']),
    )
    // A fleet this small may keep up with no rate on a busy machine; then there is no ceiling to take a part of.
    const parts = document.rows.map(({ part }) => part)
    expect(parts.slice(0, 2)).toEqual(['steady', 'step 1'])
    expect([[], ['at 80 %', 'at 50 %']]).toContainEqual(parts.slice(2))
    for (const part of ['steady', ...parts.slice(2)]) {
      const { claims, enqueues } = document.evidence[String(part)]!.splits!
      for (const split of [claims, enqueues]) {
        expect(split!.calls).toBeGreaterThan(0)
        expect(split!.slowest.serverRun).toBeGreaterThan(0)
        expect(split!.slowest.own).toBeLessThanOrEqual(split!.slowest.total!)
      }
    }
  })

  test('flapping: jobs outlive the outage of their dependency, and none dies', async (context) => {
    const document = await runShort(context, 'flapping')

    for (const row of document.rows) {
      expect(row.dead).toBe(0)
      expect(row.retries).toBeGreaterThan(0)
      expect(row.succeeded).toBe(row.accepted)
    }
  })

  test('poison: jobs that always fail are dead after exactly their attempts', async (context) => {
    const document = await runShort(context, 'poison')

    expect(document.rows.find(({ what }) => what === 'with poison')!.dead).toBeGreaterThan(0)
    expect(document.rows.find(({ what }) => what === 'without')!.dead).toBe(0)
  })

  test('timed: every timed job runs while the backlog lasts', async (context) => {
    const document = await runShort(context, 'timed')

    const [row] = document.rows
    expect(row!.ran).toBe(row!.timed)
    expect(row!.left).toBeGreaterThan(0)
  })

  test('drain: every job of a backlog succeeds', async (context) => {
    const document = await runShort(context, 'drain')

    expect(document.rows[0]).toMatchObject({ what: 'cold backlog', jobs: 50_000 })
  })

  test('workers: a row for each size of fleet', async (context) => {
    const document = await runShort(context, 'workers')

    expect(document.rows.map(({ concurrency }) => concurrency)).toEqual([4, 32])
  })

  test('retention: a day with thousands of live jobs is dropped while jobs run, and none of them is lost', async (context) => {
    const document = await runShort(context, 'retention')

    expect(keptPromises(document)).toEqual(
      expect.arrayContaining([
        'the day is dropped',
        'live jobs of it that are there',
        'jobs without a state, or in two',
      ]),
    )
  })

  test('claim-batch: a row for each size of claim', async (context) => {
    const document = await runShort(context, 'claim-batch')

    expect(document.rows.map(({ batch }) => batch)).toEqual([1, 200])
    expect(document.rows[0]!.jobsPerClaim).toBe(1)
  })

  test('fairness: tenants behind a flood take turns with it, weights hold, and aging starts what was starved', async (context) => {
    const document = await runShort(context, 'fairness')

    expect(keptPromises(document)).toEqual(
      expect.arrayContaining([
        'tenants behind a flood, 2 processes: starts until every tenant had all its jobs',
        'without aging a low priority is starved',
        'with aging it starts when it has gained the difference',
        '2 processes: single jobs served while the flood lasts',
      ]),
    )
  })

  test('exactness: limits that queues share are reached and never passed while processes are killed', async (context) => {
    const document = await runShort(context, 'exactness')

    const [one, two, five, rate] = document.rows
    expect([one, two, five].map((row) => [row!.over, Number(row!.history) > 0])).toEqual(Array(3).fill([0, true]))
    expect(rate!.starts).toBeGreaterThan(0)
    expect(keptPromises(document)).toContain('processes were killed')
  })

  test('breaker: a dependency that is down is called less often, and no job dies with a breaker or without', async (context) => {
    const document = await runShort(context, 'breaker')

    for (const row of document.rows) expect(row).toMatchObject({ dead: 0, succeeded: row.accepted })
    expect(keptPromises(document)).toContain('calls while it was down, with a breaker')
  })

  test('adaptive: the concurrency follows a provider within its bounds, and a 429 costs no attempt', async (context) => {
    const document = await runShort(context, 'adaptive')

    expect(keptPromises(document)).toEqual(
      expect.arrayContaining([
        'the concurrency stays within its bounds, and moves',
        'jobs that lost an attempt to a 429',
      ]),
    )
  })
})

// It starts servers of its own, in pairs and under Patroni.
test('failovers: nothing acknowledged is lost or runs twice, and what a killed producer knew is named', {
  timeout: PATIENCE_MS,
}, async (context) => {
  const document = await runShort(context, 'failovers', [], { isOnServer: false })

  expect(document.rows.map(({ failovers }) => failovers).reduce((sum, count) => Number(sum) + Number(count), 0)).toBe(3)
  expect(keptPromises(document)).toEqual(
    expect.arrayContaining([
      'acknowledged jobs of living producers that did not end',
      'jobs that ran twice because of a failover',
      'missing jobs of killed producers outside the named window',
    ]),
  )
})

test('outbox: each job whose transaction committed is done once, whoever dies and whatever Redis loses', {
  timeout: PATIENCE_MS,
}, async (context) => {
  const document = await runShort(context, 'outbox', [], { hasFigure: false })

  expect(keptPromises(document)).toEqual(
    expect.arrayContaining([
      'committed jobs that were not done',
      'jobs that were done twice',
      'jobs of transactions that did not commit',
      'Redis lost jobs that it had taken',
    ]),
  )
})

describe('the command', () => {
  test('careful: under kills no finished step runs again, and the list of doubtful effects is exact', async (context) => {
    const document = await runShort(context, 'careful', [], { hasFigure: false })

    expect(keptPromises(document)).toEqual(
      expect.arrayContaining(['finished steps that ran again', 'the reader got each piece once and in order']),
    )
  })

  test('parked: jobs that wait for a signal hold no slot, and each goes on', async (context) => {
    const document = await runShort(context, 'parked', [], { hasFigure: false })

    expect(document.rows[0]).toMatchObject({ jobs: 2_000, leases: 0, inSlots: 0, measured: 300 })
  })

  test('import: from each old queue with its workers running, no job is lost and none runs twice', {
    timeout: PATIENCE_MS,
  }, async (context) => {
    const document = await runShort(context, 'import', [], { hasFigure: false })

    expect(document.rows.map(({ jobs }) => jobs)).toEqual([450, 450, 450, 450, 450])
    expect(keptPromises(document)).toEqual(
      expect.arrayContaining([
        expect.stringMatching(/bullmq.*jobs lost/),
        expect.stringMatching(/pg-boss.*more than once/),
      ]),
    )
  })

  test('--list names the twenty, each with its question', { timeout: 60_000 }, async (context) => {
    const { code, stdout } = await run(context, ['--list', '--json'])

    expect(code).toBe(0)
    const { experiments } = JSON.parse(stdout) as { experiments: { name: string; about: string }[] }
    expect(experiments).toHaveLength(20)
    expect(experiments.every(({ about }) => about.length > 20)).toBe(true)
  })

  test.each([
    [['no-such'], /there is no experiment "no-such"; there are workers, /],
    [['lease', '--minutes', '3'], /lease has no minutes to choose/],
    [['drain', '--slots', '3'], /drain has no slots to choose/],
    [['sustained', '--processes', '65'], /processes must be a whole number from 1 to 64/],
    [['sustained', '--slots', '4097'], /slots must be a whole number from 1 to 4096/],
    [['sustained', '--rate', '0'], /rate must be a whole number from 1 /],
    [['sustained', '--minutes', '0.01'], /minutes must be a number from 0\.05 to 600/],
    [['lease', '--add'], /lease is run as a whole: leave --add out/],
    [['failovers', '--servers', 'three'], /servers must be pair, pair-15 or patroni, got "three"/],
    [['failovers', '--failovers', '0'], /failovers must be a whole number from 1 /],
    [[], /name an experiment/],
  ])('%j is a mistake in usage, reported before anything is started', { timeout: 60_000 }, async (args, message) => {
    const child = spawn(process.execPath, [MAIN, 'experiment', ...args], { stdio: ['ignore', 'ignore', 'pipe'] })
    let stderr = ''
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      stderr += text
    })
    const [code] = await once(child, 'close')

    expect(stderr).toMatch(message)
    expect(code).toBe(2)
  })
})
