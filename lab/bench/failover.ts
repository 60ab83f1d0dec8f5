// npm run bench -- failover: what it costs to remember what was accepted. The same measures with failoverMemory and without, in turns.

import { openAndCloseForSure } from '../interrupt.js'
import { say } from '../say.js'
import { PostgresServer } from '../servers/postgres.js'
import type { FailoverArguments } from './arguments.js'
import { POSTGRES_SETTINGS } from './database.js'
import { describeMachine, versionsOf, writeDocument } from './document.js'
import { compareVariants, type PlainRatio, plainRatios } from './flow/builds.js'
import { printTable, type Table } from './table.js'

const SCALES = {
  full: { seconds: 5, drainJobs: 100_000, latencySamples: 0, depths: { short: 0, deep: 0 } },
  quick: { seconds: 1, drainJobs: 2_000, latencySamples: 0, depths: { short: 0, deep: 0 } },
} as const
const VARIANTS = { this: 'with failoverMemory', other: 'without failoverMemory' } as const

/** Measures and returns the exit code. */
export async function failover({ isQuick, isJson, rounds }: FailoverArguments): Promise<number> {
  const scale = isQuick ? 'quick' : 'full'
  const [postgres, close] = await openAndCloseForSure(
    () => PostgresServer.open({ settings: POSTGRES_SETTINGS }),
    (server) => server.close(),
  )
  try {
    const turns = await compareVariants(postgres, { variants: VARIANTS, rounds, scale: SCALES[scale] })
    const ratios = plainRatios(turns)
    printTable(tableOf(ratios))
    say(
      'Medians of the rounds; ratios are those of rounds, with over without. Processor time is that of server and Node.',
    )
    if (isJson) {
      writeDocument({
        schemaVersion: 1,
        program: 'failover',
        date: new Date().toISOString(),
        machine: describeMachine(),
        versions: await versionsOf({ postgres, redis: null }),
        settings: { postgres: POSTGRES_SETTINGS, rounds, ...SCALES[scale] },
        ...{ scale, ratios, turns },
      })
    }
    return 0
  } finally {
    await close()
  }
}

function tableOf(rows: readonly PlainRatio[]): Table<PlainRatio> {
  return {
    columns: [
      { title: 'measure', read: ({ measure }) => measure },
      { title: 'rounds', read: ({ rounds }) => rounds },
      { title: 'jobs/s without', read: ({ otherPerSecond }) => otherPerSecond },
      { title: 'with', read: ({ thisPerSecond }) => thisPerSecond },
      { title: 'ratio', read: ({ jobsRatio }) => jobsRatio, digits: 3 },
      { title: 'µs/job without', read: ({ otherUs }) => otherUs, digits: 1 },
      { title: 'with', read: ({ thisUs }) => thisUs, digits: 1 },
      { title: 'ratio', read: ({ cpuRatio }) => cpuRatio, digits: 3 },
    ],
    rows,
  }
}
