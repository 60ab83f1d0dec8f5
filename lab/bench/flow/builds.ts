// What plain jobs pay for something: the same measures by this build and by another one, or with an option and without, in turns.

import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { say } from '../../say.js'
import type { PostgresServer } from '../../servers/postgres.js'
import { UsageError } from '../arguments.js'
import type { Assignment, Report } from '../child.js'
import { Child } from '../children.js'
import { freshDatabase } from '../database.js'
import type { Scale } from '../measures.js'
import { serverCpuUs } from '../resources.js'
import { median } from '../statistics.js'

const PLAIN_MEASURES = ['single, 64 callers', 'bulk, batches of 500', 'drain, one process', 'both concurrently']

const PROGRAM = 'lab/bench/child.js'
const DEADLINE_MS = 300_000

type Build = 'this' | 'other'

/** One measurement of one build. */
export interface PlainTurn {
  readonly measure: string
  readonly build: Build
  readonly round: number
  readonly jobsPerSecond: number
  /** Processor time for each job in microseconds. */
  readonly serverUs: number
  readonly nodeUs: number
}

/** A measure compared: the median of the ratios of rounds, this build over the other. */
export interface PlainRatio {
  readonly measure: string
  readonly rounds: number
  readonly thisPerSecond: number
  readonly otherPerSecond: number
  readonly jobsRatio: number
  readonly thisUs: number
  readonly otherUs: number
  readonly cpuRatio: number
}

interface Comparison {
  readonly rounds: number
  readonly scale: Scale
}

/** Measures both builds in turns. */
export function compareWith(
  postgres: PostgresServer,
  { against, ...comparison }: Comparison & { readonly against: string },
): Promise<readonly PlainTurn[]> {
  const [own, contender] = [new URL('../child.js', import.meta.url), 'holdfast']
  const sides = { this: { module: own, contender }, other: { module: findProgram(against), contender } }
  return measureInTurns(postgres, sides, comparison)
}

/** Measures this build with one set of options as "this", and with another as "other", in turns. */
export function compareVariants(
  postgres: PostgresServer,
  { variants, ...comparison }: Comparison & { readonly variants: Readonly<Record<Build, string>> },
): Promise<readonly PlainTurn[]> {
  const module = new URL('../child.js', import.meta.url)
  const sides = { this: { module, contender: variants.this }, other: { module, contender: variants.other } }
  return measureInTurns(postgres, sides, comparison)
}

async function measureInTurns(
  postgres: PostgresServer,
  sides: Readonly<Record<Build, Side>>,
  { rounds, scale }: Comparison,
): Promise<readonly PlainTurn[]> {
  const turns: PlainTurn[] = []
  for (let round = 1; round <= rounds; round++) {
    // Each build is first as often as second.
    const order: readonly Build[] = round % 2 === 1 ? ['other', 'this'] : ['this', 'other']
    for (const measure of PLAIN_MEASURES) {
      for (const build of order) {
        const turn = await measureBuild(postgres, { measure, build, round, side: sides[build], scale })
        const { jobsPerSecond, serverUs, nodeUs } = turn
        const cost = `${serverUs.toFixed(1)} µs server + ${nodeUs.toFixed(1)} µs Node a job`
        say(
          `round ${round} · ${measure} · ${build} build: ${Math.round(jobsPerSecond).toLocaleString('en')} jobs/s · ${cost}`,
        )
        turns.push(turn)
      }
    }
  }
  return turns
}

function findProgram(folder: string): URL {
  const files = ['.lab', 'dist'].map((out) => join(resolve(folder), out, PROGRAM))
  const file = files.find(existsSync)
  if (file !== undefined) return pathToFileURL(file)
  throw new UsageError(
    `--against ${folder} has no ${PROGRAM} in .lab or dist: \`node scripts/other-checkout.js <commit> ${folder}\` prepares such a folder`,
  )
}

/** What is measured: a program, and what it opens. */
interface Side {
  readonly module: URL
  readonly contender: string
}

interface BuildTurn {
  readonly measure: string
  readonly build: Build
  readonly round: number
  readonly side: Side
  readonly scale: Scale
}

async function measureBuild(
  postgres: PostgresServer,
  { measure, build, round, side, scale }: BuildTurn,
): Promise<PlainTurn> {
  const postgresUrl = await freshDatabase(postgres.url)
  const { module, contender } = side
  const assignment: Assignment = { contender, measure, servers: { postgresUrl, redisPort: null }, scale }
  const run = async (asked: Assignment) => {
    const child = new Child(module, asked, { name: `the ${build} build in "${measure}"`, deadlineMs: DEADLINE_MS })
    const report = await child.hear<Report>('report')
    await child.ended()
    return report
  }
  // Makes the schema, which takes one build longer than the other.
  await run({ ...assignment, measure: PLAIN_MEASURES[0]!, scale: { ...scale, seconds: 0.1 } })
  const before = serverCpuUs(postgres.pid)
  const { jobs, seconds, nodeCpuUs } = await run(assignment)
  const serverUs = (serverCpuUs(postgres.pid) - before) / jobs
  return { measure, build, round, jobsPerSecond: jobs / seconds, serverUs, nodeUs: nodeCpuUs / jobs }
}

/** The ratios of every measure. Rounds are compared by themselves: the machine's own speed changes between them. */
export function plainRatios(turns: readonly PlainTurn[]): readonly PlainRatio[] {
  const cpu = ({ serverUs, nodeUs }: PlainTurn) => serverUs + nodeUs
  return PLAIN_MEASURES.flatMap((measure) => {
    const of = (build: Build) => turns.filter((turn) => turn.measure === measure && turn.build === build)
    const pairs = of('this').flatMap((now) => {
      const other = of('other').find(({ round }) => round === now.round)
      return other === undefined ? [] : [[now, other] as const]
    })
    if (pairs.length === 0) return []
    return [
      {
        measure,
        rounds: pairs.length,
        thisPerSecond: median(pairs.map(([now]) => now.jobsPerSecond)),
        otherPerSecond: median(pairs.map(([, other]) => other.jobsPerSecond)),
        jobsRatio: median(pairs.map(([now, other]) => now.jobsPerSecond / other.jobsPerSecond)),
        thisUs: median(pairs.map(([now]) => cpu(now))),
        otherUs: median(pairs.map(([, other]) => cpu(other))),
        cpuRatio: median(pairs.map(([now, other]) => cpu(now) / cpu(other))),
      },
    ]
  })
}
