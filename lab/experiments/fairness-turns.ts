// Turns: how many starts it takes until tenants behind a flood have all their jobs, and how starts are shared out by weight.

import type pg from 'pg'
import { seedReady } from '../bench/growth/seed.js'
import type { ExperimentContext } from './experiment.js'
import { type FairnessConfig, type FleetSize, type Part, partOf, type Shares, withHoldfast } from './fairness-parts.js'
import { withFleet } from './fleet.js'
import { type Ground, withGround } from './place.js'
import { pause } from './proof.js'
import { seedHeld } from './seed-held.js'

const QUEUE = 'turns'
const NOTHING = async () => {}

/** When a tenant had all its jobs. */
export interface TenantEnd {
  readonly tenant: string
  /** Starts of the queue until then. */
  readonly starts: number
  readonly seconds: number
}

export interface Turns {
  readonly name: string
  readonly part: Part
  /** Until the last of them. */
  readonly starts: number
  readonly ends: readonly TenantEnd[]
}

// The fence of a first attempt is the millisecond of its claim.
const ENDS = `
WITH started AS (
  SELECT jobs.payload ->> 'tenant' AS tenant, finished.finished_at,
         count(*) OVER (ORDER BY finished.fence) AS starts, min(finished.started_at) OVER () AS began_at
    FROM holdfast.finished
    JOIN holdfast.jobs ON jobs.id = finished.id
)
SELECT tenant, max(starts)::integer AS starts, date_part('epoch', max(finished_at) - min(began_at)) AS seconds
  FROM started
 WHERE tenant IS NOT NULL
 GROUP BY tenant`

const TENANTS_LEFT = `
SELECT EXISTS (SELECT FROM holdfast.held WHERE group_name <> 'flood')
    OR EXISTS (SELECT FROM holdfast.running WHERE group_name <> 'flood')
    OR EXISTS (SELECT FROM holdfast.ready) AS left`

/** Tenants behind a flood, with groups or without. */
export function measureTurns(
  { place, config }: ExperimentContext<FairnessConfig>,
  { processes, slots }: FleetSize,
  hasGroups: boolean,
): Promise<Turns> {
  const { tenants, jobsEach, flood } = config
  const seed = (client: pg.Client) =>
    hasGroups ? seedHeld(client, { queue: QUEUE, group: 'flood', jobs: flood }) : seedReady(client, flood, [QUEUE])
  return withGround(place, seed, (ground) =>
    withFleet({ url: ground.url, processes, slots, queues: [QUEUE] }, async (fleet) => {
      await withHoldfast(ground.url, async (holdfast) => {
        for (let number = 0; number < tenants; number++) {
          const tenant = `tenant-${number}`
          const payloads = Array.from({ length: jobsEach }, () => ({ tenant }))
          await holdfast.enqueueMany('noop', payloads, { queue: QUEUE, ...(hasGroups ? { group: tenant } : {}) })
        }
      })
      fleet.start()
      await waitWhile(ground, TENANTS_LEFT, config.deadlineSeconds)
      await fleet.stop()
      const { rows: ends } = await ground.client.query<TenantEnd>(ENDS)
      if (ends.length !== tenants) throw new Error(`only ${ends.length} of ${tenants} tenants had a job that ended`)
      const starts = Math.max(...ends.map((end) => end.starts))
      const what = hasGroups ? 'tenants behind a flood' : 'the same without groups'
      const name = `${what}, ${processes} ${processes === 1 ? 'process' : 'processes'}`
      const fewest = hasGroups ? `${(tenants + 1) * jobsEach} starts at least` : ''
      return { name, starts, ends, part: partOf(what, processes, fewest, `${starts.toLocaleString('en')} starts`) }
    }),
  )
}

async function waitWhile({ client }: Ground, sql: string, seconds: number): Promise<void> {
  const endMs = performance.now() + seconds * 1_000
  for (;;) {
    const { rows } = await client.query(sql)
    if (rows[0].left === false) return
    if (performance.now() > endMs) throw new Error(`jobs were left after ${seconds} s`)
    await pause(50)
  }
}

// Whole claims only: within one there is no order.
const FIRST_STARTS = `
WITH started AS (
  SELECT coalesce(jobs.options #>> '{flow,group}', jobs.queue) AS name, count(*) OVER (ORDER BY finished.fence) AS starts,
         finished.fence
    FROM holdfast.finished
    JOIN holdfast.jobs ON jobs.id = finished.id
)
SELECT name, count(*)::integer AS starts
  FROM started
 WHERE fence <= (SELECT min(fence) FROM started WHERE starts >= $1)
 GROUP BY name`

const GROUP_WEIGHTS: Readonly<Record<string, number>> = { a: 3, b: 1, c: 1, d: 1 }

/** Groups with weights 3:1:1:1, all of them with jobs all the time. */
export function measureWeights(
  { place, config }: ExperimentContext<FairnessConfig>,
  { processes, slots }: FleetSize,
): Promise<Shares> {
  const starts = config.weightedStarts
  return withGround(place, NOTHING, (ground) =>
    withFleet({ url: ground.url, processes, slots, queues: [QUEUE] }, async (fleet) => {
      await withHoldfast(ground.url, async (holdfast) => {
        await holdfast.setGroup(QUEUE, 'a', { weight: 3 })
        for (const group of Object.keys(GROUP_WEIGHTS)) {
          // None runs dry while the starts are counted.
          const payloads = Array.from({ length: starts }, () => ({}))
          await holdfast.enqueueMany('noop', payloads, { queue: QUEUE, group })
        }
      })
      fleet.start()
      await waitWhile(ground, done(starts), config.deadlineSeconds)
      await fleet.stop()
      return sharesOf(ground, { what: 'groups 3:1:1:1', processes, weights: GROUP_WEIGHTS, starts })
    }),
  )
}

const QUEUE_WEIGHTS: Readonly<Record<string, number>> = { critical: 6, default: 3, low: 1 }

/** A worker with queues of weights 6:3:1, all of them with jobs all the time. */
export function measureQueueWeights({ place, config }: ExperimentContext<FairnessConfig>): Promise<Shares> {
  const starts = config.queueStarts
  const names = Object.keys(QUEUE_WEIGHTS)
  return withGround(
    place,
    (client) => seedReady(client, 3 * starts, names),
    (ground) =>
      withFleet({ url: ground.url, processes: 1, slots: 10, queues: QUEUE_WEIGHTS, plainMs: [1, 3] }, async (fleet) => {
        fleet.start()
        await waitWhile(ground, done(starts), config.deadlineSeconds)
        await fleet.stop()
        return sharesOf(ground, { what: 'queues 6:3:1', processes: 1, weights: QUEUE_WEIGHTS, starts })
      }),
  )
}

const done = (starts: number) => `SELECT count(*) < ${starts} AS left FROM holdfast.finished`

interface SharesQuestion {
  readonly what: string
  readonly processes: number
  readonly weights: Readonly<Record<string, number>>
  readonly starts: number
}

async function sharesOf({ client }: Ground, question: SharesQuestion): Promise<Shares> {
  const { what, processes, weights, starts } = question
  const { rows } = await client.query<{ name: string; starts: number }>(FIRST_STARTS, [starts])
  const of = Object.entries(weights).map(([name, weight]) => ({
    ...{ name, weight },
    starts: rows.find((row) => row.name === name)?.starts ?? 0,
  }))
  const total = of.reduce((sum, one) => sum + one.starts, 0)
  const sum = Object.values(weights).reduce((all, weight) => all + weight, 0)
  const expected = of.map(({ weight }) => Math.round((total * weight) / sum)).join(':')
  const seen = of.map((one) => one.starts).join(':')
  const name = `${what}, ${processes} ${processes === 1 ? 'process' : 'processes'}`
  return { name, of, part: partOf(what, processes, expected, seen) }
}
