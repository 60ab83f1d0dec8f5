// Looks for a bug that was planted into the PostgreSQL store, by one of the ways there are: each of them is a test of the store as it is.

import fc from 'fast-check'
import pg from 'pg'
import { expect } from 'vitest'
import { newMemory } from '../../src/stores/memory/memory.js'
import { storeOver } from '../../src/stores/memory/store.js'
import { manualClock } from '../../src/testing/manual-clock.js'
import type { Facts } from '../../src/testing/store-suite/context.js'
import { flowTurnFacts } from '../../src/testing/store-suite/flow-turns.js'
import { START_MS } from '../../src/testing/store-suite/samples.js'
import { compare, newTally } from './compare.js'
import type { FlowBug } from './flow-bugs.js'
import { playFlow } from './flow-history.js'
import { raceFlow } from './flow-race.js'
import { flowOperations } from './operations.js'
import { PlantedStores } from './planted-store.js'

/** What was found, and after how many histories, sequences, races or facts. */
export interface Found {
  readonly name: string
  readonly by: FlowBug['by']
  readonly after: number
  /** The first thing that went wrong; null when nothing did. */
  readonly problem: string | null
  /** Where the bug was planted. */
  readonly planted: readonly string[]
}

interface Place {
  readonly url: string
  readonly schema: string
}

/** How often each way is tried at most. */
const TRIES = { history: 60, property: 200, race: 60, turns: 1 } as const
const RACE = { jobs: 400, forMs: 2_500, callers: 4 } as const

/** Looks for one bug, in a schema that has been migrated and that nobody else uses. Null for the store as it is. Rejects when the store as it
 *  is fails where the bug was found: then nothing was found. */
export async function huntFlow(
  place: Place,
  bug: FlowBug | null,
  { by, tries = TRIES[by] }: { readonly by: FlowBug['by']; readonly tries?: number },
): Promise<Found> {
  const found = await search(place, bug, by, tries)
  if (bug !== null && found.problem !== null && by !== 'race') await expectSound(place, by, found.after)
  return found
}

async function search(place: Place, bug: FlowBug | null, by: FlowBug['by'], tries: number): Promise<Found> {
  const stores = await PlantedStores.plant(place.url, place.schema, bug)
  try {
    let after = 0
    let problem: string | null = null
    while (problem === null && after < tries) problem = await WAYS[by](stores, place.url, ++after)
    return { name: bug?.name ?? 'no bug', by, after, problem, planted: [...new Set(stores.planted)] }
  } finally {
    await stores.close()
  }
}

const sound = new Set<string>()

/** What a seed found is played again without the bug, once in a process. */
async function expectSound(place: Place, by: FlowBug['by'], number: number): Promise<void> {
  if (sound.has(`${by} ${number}`)) return
  const stores = await PlantedStores.plant(place.url, place.schema, null)
  try {
    const problem = await WAYS[by](stores, place.url, number)
    if (problem !== null) throw new Error(`The store as it is fails too, at number ${number} by ${by}: ${problem}`)
  } finally {
    await stores.close()
  }
  sound.add(`${by} ${number}`)
}

type Way = (stores: PlantedStores, url: string, number: number) => Promise<string | null>

const byHistory: Way = async (stores, _url, number) => {
  const clock = manualClock(START_MS)
  await stores.empty()
  const { problems } = await playFlow(stores.again(clock), clock, number)
  return problems[0] ?? null
}

const byProperty: Way = async (stores, _url, number) => {
  const clock = manualClock(START_MS)
  await stores.empty()
  const [sequence] = fc.sample(flowOperations(120, 150, { canReplace: false }), { seed: number, numRuns: 1 })
  const memory = newMemory()
  const tally = { ...newTally(), runs: number }
  const comparison = { reference: storeOver(memory, clock), memory, candidate: stores.again(clock), clock, tally }
  return problemOf(compare(comparison, sequence!))
}

const byRace: Way = async (stores, url, number) => {
  await stores.empty()
  const clients = Array.from({ length: RACE.callers + 2 }, () => new pg.Client({ connectionString: url }))
  await Promise.all(clients.map((client) => client.connect()))
  const untilMs = performance.now() + RACE.forMs
  const callers = Array.from({ length: RACE.callers }, (_, index) => stores.again(null, index))
  const { problems } = await raceFlow({ stores: callers, clients, seed: number, jobs: RACE.jobs, untilMs })
  await Promise.all(clients.map((client) => client.end()))
  return problems[0] ?? null
}

const byTurns: Way = async (stores) => {
  for (const [name, fact] of Object.entries(flowTurnFacts)) {
    const clock = manualClock(START_MS)
    await stores.empty()
    const context = { store: stores.again(clock), clock, expect } as unknown as Parameters<Facts[string]>[0]
    const problem = await problemOf(Promise.resolve(fact(context)))
    if (problem !== null) return `${name}: ${problem}`
  }
  return null
}

const WAYS: Readonly<Record<FlowBug['by'], Way>> = {
  history: byHistory,
  property: byProperty,
  race: byRace,
  turns: byTurns,
}

async function problemOf(run: Promise<unknown>): Promise<string | null> {
  try {
    await run
    return null
  } catch (error) {
    return (error as Error).message.split('\n')[0]!
  }
}
