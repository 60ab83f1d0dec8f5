// How Holdfast's cost grows: with the backlog, with other data in the store, with slots and queues, with time.

import { mkdir, mkdtemp, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openAndCloseForSure } from '../interrupt.js'
import { drawFigure } from '../plot.js'
import { say } from '../say.js'
import { PostgresServer } from '../servers/postgres.js'
import type { GrowthArguments } from './arguments.js'
import { POSTGRES_SETTINGS } from './database.js'
import { describeMachine, versionsOf, writeDocument } from './document.js'
import { GROWTH_MEASURES } from './growth/all.js'
import type { GrowthContext, GrowthResult } from './growth/measure.js'
import { printTable } from './table.js'

/** Measures what was chosen and returns the exit code: 1 when a measure failed. */
export async function growth(chosen: GrowthArguments): Promise<number> {
  const out = chosen.out ?? (await mkdtemp(join(tmpdir(), 'holdfast-plots-')))
  await mkdir(out, { recursive: true })
  const [postgres, close] = await openAndCloseForSure(
    () => PostgresServer.open({ settings: POSTGRES_SETTINGS }),
    (server) => server.close(),
  )
  const measured: object[] = []
  const failures: { readonly measure: string; readonly error: string }[] = []
  try {
    for (const name of chosen.measures) {
      try {
        const result = await measure(name, { postgres, isQuick: chosen.isQuick, minutes: chosen.minutes }, out)
        const { rows, notes, samples } = result
        measured.push({ measure: name, about: GROWTH_MEASURES[name]!.about, rows, notes, samples: samples ?? [] })
      } catch (thrown) {
        const error = thrown instanceof Error ? thrown.message : String(thrown)
        say(`FAILED: ${name}: ${error}`)
        failures.push({ measure: name, error })
      }
    }
    if (chosen.isJson) {
      writeDocument({
        schemaVersion: 1,
        program: 'growth',
        date: new Date().toISOString(),
        machine: describeMachine(),
        versions: await versionsOf({ postgres, redis: null }),
        settings: { postgres: POSTGRES_SETTINGS },
        scale: chosen.isQuick ? 'quick' : 'full',
        measures: measured,
        failures,
      })
    }
  } finally {
    await close()
  }
  return failures.length === 0 ? 0 : 1
}

async function measure(name: string, context: GrowthContext, out: string): Promise<GrowthResult> {
  const { about, run } = GROWTH_MEASURES[name]!
  say(`\n── ${name}: ${about}`)
  // A measure that failed may have left the server down.
  if (!context.postgres.isRunning) await context.postgres.start()
  const beganMs = performance.now()
  const result = await run(context)
  printTable(result)
  for (const note of result.notes) say(note)
  for (const [file, figure] of Object.entries(result.figures)) {
    const path = join(out, `${file}.svg`)
    await writeFile(path, drawFigure(figure))
    say(`plot: ${path}`)
  }
  say(`${name} took ${Math.round((performance.now() - beganMs) / 1_000)} s`)
  return result
}
