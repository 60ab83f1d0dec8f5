// holdfast doctor: what durability the store really has, what is wrong with it, and how to fix it.

import type { Command } from 'commander'
import { checkWhole } from '../../core/check.js'
import type { Duration } from '../../core/duration.js'
import { given } from '../../core/given.js'
import type { StoreHealth } from '../../core/operating.js'
import { addExamples, type Cli } from '../command.js'
import { type Check, checksOf, durabilityOf, type Level } from '../doctor/checks.js'
import { describeFailover } from '../doctor/failover-checks.js'
import type { Facts } from '../doctor/inspect.js'
import { CliError } from '../errors.js'
import { EXIT } from '../exit-codes.js'
import { duration, wholeNumber } from '../input/arguments.js'
import {
  addStoreOptions,
  atStore,
  type ChosenStore,
  checkExists,
  chooseStore,
  openStore,
  environmentOption as option,
  type StoreFlags,
} from '../input/connection.js'
import { writeJson } from '../output/json.js'
import { type Format, visible } from '../output/terminal.js'

const REPLICAS_MAX = 100

interface DoctorFlags extends StoreFlags {
  readonly horizonWarn?: Duration
  readonly durability?: 'default' | 'replicated' | 'fsynced'
  readonly replicas?: number
  readonly afterFailover?: boolean
}

export function addDoctor(parent: Command, cli: Cli): void {
  const command = parent
    .command('doctor')
    .summary('check the store: durability, settings, schema, clock')
    .description(
      'Checks the store and changes nothing: what durability its settings really give, whether it accepts writes, its ' +
        'schema, version, vacuum, connections, pooler and clock, queues without a worker, and flow control that ' +
        'holds jobs up. Prints how to fix what is ' +
        'wrong. Exits with 7 when a check failed; warnings do not count.',
    )
    .addOption(
      option(
        '--horizon-warn <duration>',
        'warn when dead rows cannot be removed for this long (default: 60s)',
        duration,
      ),
    )
    .addOption(
      option('--durability <what>', 'on Redis: what your programs connect with, to judge the replicas by').choices([
        'default',
        'replicated',
        'fsynced',
      ]),
    )
    .addOption(
      option('--replicas <number>', 'on Redis: how many replicas their writes wait for (default: 1)', wholeNumber),
    )
    .option('--after-failover', 'say what the last failover may have lost, and what was said again')
    .action((flags: DoctorFlags) => doctor(cli, flags))
  addStoreOptions(command, { json: 'print { store, version, isDurable, durability, checks, isHealthy } as JSON' })
  addExamples(command, [
    ['holdfast doctor', 'before the first job that matters'],
    ['holdfast doctor --url postgres://app@db/shop --json', 'in a deployment'],
    ['holdfast doctor --after-failover', 'what may be missing'],
    ['holdfast doctor --url redis://cache --durability replicated --replicas 2', 'are there enough replicas?'],
    [`holdfast doctor --json | jq -r '.checks[] | select(.level != "ok") | .fix[]'`, 'only what to run'],
  ])
}

async function doctor(cli: Cli, flags: DoctorFlags): Promise<void> {
  const store = chooseStore(flags)
  checkExists(store)
  const facts = await atStore(store, () => inspect(store, flags))
  if (flags.afterFailover === true) return sayFailover(cli, flags, facts)
  const { horizonWarn } = flags
  const checks = checksOf(facts, horizonWarn === undefined ? undefined : { horizonWarnMs: Number(horizonWarn) })
  const isHealthy = checks.every(({ level }) => level !== 'failed')
  if (flags.json === true) {
    const { health } = facts
    const isDurable = health?.isDurable === true
    const durability = durabilityOf(facts)
    writeJson(cli, {
      ...{ store: store.shown, version: health?.version ?? null, isDurable, durability, checks, isHealthy, health },
    })
  } else print(cli, store, facts, checks)
  if (!isHealthy) process.exitCode = EXIT.checkFailed
}

function sayFailover(cli: Cli, { json }: StoreFlags, { failover }: Facts): void {
  if (json === true) writeJson(cli, { failover: failover ?? null })
  else for (const line of describeFailover(failover)) cli.stdout.line(line)
}

async function inspect(store: ChosenStore, flags: DoctorFlags): Promise<Facts> {
  if (/^(embedded|postgres(ql)?):/.test(store.url)) {
    const [name] = Object.keys(given({ durability: flags.durability, replicas: flags.replicas }))
    if (name !== undefined) throw new CliError(`--${name} is for a store on Redis, and this one is ${store.shown}`)
    const { inspectPostgres } = await import('../doctor/inspect.js')
    return inspectPostgres(store, flags)
  }
  const holdfast = await openStore(store, flags, { upkeep: false, migrate: false })
  try {
    const health = await holdfast.health()
    const { clockOffsetMs } = health
    return { migrations: null, health: judgedBy(flags, health), clockOffsetMs, overview: null }
  } finally {
    await holdfast.close()
  }
}

/** As a program sees the server that connects with these. Doctor itself does not: without the replicas it could not open the store. */
function judgedBy({ durability, replicas }: DoctorFlags, health: StoreHealth): StoreHealth {
  if (health.redis === undefined || (durability === undefined && replicas === undefined)) return health
  const asked = durability ?? 'replicated'
  const replicasWanted = asked === 'default' ? 0 : checkWhole('--replicas', replicas ?? 1, 1, REPLICAS_MAX)
  return { ...health, redis: { ...health.redis, durability: asked, replicasWanted } }
}

const MARKS: Readonly<Record<Level, readonly [mark: string, format: Format]>> = {
  ok: ['ok', 'green'],
  warning: ['warning', 'yellow'],
  failed: ['FAILED', 'red'],
}

function print({ stdout, stderr }: Cli, store: ChosenStore, facts: Facts, checks: readonly Check[]): void {
  stdout.line(`${stdout.style('dim', 'store')}       ${visible(store.shown)}`)
  stdout.line(`${stdout.style('dim', 'durability')}  ${durabilityOf(facts)}`)
  stdout.line()
  const width = Math.max(...checks.map(({ name }) => name.length))
  for (const { name, level, text, fix } of checks) {
    const [mark, format] = MARKS[level]
    stdout.line(`${stdout.style(format, mark.padEnd(7))}  ${name.padEnd(width)}  ${visible(text)}`)
    for (const line of fix) stdout.line(`${' '.repeat(width + 11)}${stdout.style('cyan', visible(line))}`)
  }
  const count = (level: Level) => checks.filter((check) => check.level === level).length
  const [bad, doubtful] = [count('failed'), count('warning')]
  stderr.line(
    `${checks.length === 1 ? '1 check' : `${checks.length} checks`}: ${bad} failed, ${doubtful} ${doubtful === 1 ? 'warning' : 'warnings'}`,
  )
}
