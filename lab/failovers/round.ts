// One failover under load: the load goes on, another server takes over, everything ends, and what was acknowledged is compared with
// what is there.

import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { checkRound, type NamedWindow, type RoundFindings, type Whereabouts } from './check.js'
import type { Cluster, Way } from './cluster.js'
import type { AcceptedLine } from './lines.js'
import type { Parties } from './parties.js'
import type { PartySample } from './party-child.js'

const MAIN = join(import.meta.dirname, '..', '..', 'src', 'cli', 'main.js')
const LOOK_MS = 100
/** Jobs of one failover whose story is told. */
const TOLD_MAX = 3

export interface RoundPlan {
  readonly way: Way
  /** Whether the producer is killed with the primary. */
  readonly kills: boolean
}

export interface RoundTimes {
  /** Load before the failover. */
  readonly beforeMs: number
  /** Load after the first acknowledgement by the new primary. */
  readonly afterMs: number
  /** How long everything may take to end. */
  readonly drainMs: number
  readonly perSecond: number
}

export interface RoundResult extends RoundFindings {
  readonly way: Way
  readonly kills: boolean
  readonly accepted: number
  readonly runs: number
  /** Acknowledged in a second while the load lasted, with the outage. */
  readonly perSecond: number
  /** From the moment when the new primary took writes to the first acknowledgement of a living producer. */
  readonly firstMs: number | null
  /** How long nothing was acknowledged. */
  readonly outageMs: number
  /** How long it took until the backlog was gone, after the load had ended. */
  readonly drainMs: number
  readonly refused: number
  readonly saidAgain: { readonly jobs: number; readonly claims: number; readonly settlements: number }
  readonly named: NamedWindow | null
  readonly isDrained: boolean
  /** What the processes wrote down about a few of the jobs that went wrong; empty when none did. */
  readonly story: readonly string[]
  readonly lastError: string | null
}

/** Runs one. */
export async function runRound(
  { cluster, parties, times }: { readonly cluster: Cluster; readonly parties: Parties; readonly times: RoundTimes },
  { way, kills }: RoundPlan,
): Promise<RoundResult> {
  const before = await parties.sample()
  const beganMs = Date.now()
  await parties.setPace(times.perSecond)
  await sleep(times.beforeMs)
  const { answeredMs } = await cluster.takeOver(way, () => (kills ? parties.kill() : Promise.resolve()))
  const lines = await linesUntilAcknowledged(parties, answeredMs, times.drainMs)
  await sleep(times.afterMs)
  await parties.setPace(0)
  const endMs = Date.now()
  const isAnswered = await answeredAll(parties, times.drainMs)
  const open = isAnswered ? [] : await unanswered(parties)
  const isDrained = (await drained(cluster.primaryUrl, times.drainMs)) && isAnswered
  const drainMs = Date.now() - endMs
  const rest = await parties.read()
  const after = await parties.sample()
  const [accepted, acceptedByKilled] = [both('accepted'), both('acceptedByKilled')]
  const [began, succeeded] = [both('began'), both('succeeded')]
  const whereabouts = await whereAre(cluster.primaryUrl, [...accepted, ...acceptedByKilled])
  const named = kills ? await namedWindow(cluster.primaryUrl) : null
  const findings = checkRound({ accepted, acceptedByKilled, began, succeeded, whereabouts, named })
  const bad = [...findings.lost, ...findings.twice, ...findings.dead]
  const story =
    bad.length === 0 && isDrained ? [] : [...open, ...(await parties.story(bad.slice(0, TOLD_MAX), beganMs))]
  const gap = longestGap(accepted, beganMs, endMs)
  const sum = (read: (sample: PartySample) => number) =>
    [...after].reduce((total, [party, sample]) => total + read(sample) - read(before.get(party)!), 0)
  return {
    ...findings,
    ...{ way, kills, named, isDrained, drainMs, story },
    accepted: accepted.length + acceptedByKilled.length,
    runs: began.length,
    perSecond: (accepted.length + acceptedByKilled.length) / ((endMs - beganMs) / 1_000),
    firstMs: firstAfter(accepted, answeredMs),
    outageMs: gap,
    refused: sum(({ refused }) => refused),
    saidAgain: {
      jobs: sum(({ saidAgain }) => saidAgain.jobs),
      claims: sum(({ saidAgain }) => saidAgain.claims),
      settlements: sum(({ saidAgain }) => saidAgain.settlements),
    },
    lastError: [...after.values()].find(({ lastError }) => lastError !== null)?.lastError ?? null,
  }

  function both<Name extends keyof typeof rest>(name: Name): (typeof rest)[Name] {
    return [...lines[name], ...rest[name]] as unknown as (typeof rest)[Name]
  }
}

/** Everything that was written down until a living producer was acknowledged after that moment. */
async function linesUntilAcknowledged(parties: Parties, answeredMs: number, patienceMs: number) {
  const all = await parties.read()
  const lines = { ...all, accepted: [...all.accepted], acceptedByKilled: [...all.acceptedByKilled] }
  const [began, succeeded] = [[...all.began], [...all.succeeded]]
  const endMs = Date.now() + patienceMs
  while (firstAfter(lines.accepted, answeredMs) === null && Date.now() < endMs) {
    await sleep(LOOK_MS)
    const more = await parties.read()
    for (const line of more.accepted) lines.accepted.push(line)
    for (const line of more.acceptedByKilled) lines.acceptedByKilled.push(line)
    for (const line of more.began) began.push(line)
    for (const line of more.succeeded) succeeded.push(line)
  }
  return { ...lines, began, succeeded }
}

function firstAfter(accepted: readonly AcceptedLine[], atMs: number): number | null {
  let first = Number.POSITIVE_INFINITY
  for (const line of accepted) if (line.atMs > atMs && line.atMs < first) first = line.atMs
  return first === Number.POSITIVE_INFINITY ? null : first - atMs
}

/** The longest time without an acknowledgement between two moments. */
function longestGap(accepted: readonly AcceptedLine[], fromMs: number, untilMs: number): number {
  const times = [fromMs, ...accepted.map(({ atMs }) => atMs).filter((atMs) => atMs < untilMs), untilMs].sort(
    (one, other) => one - other,
  )
  let longest = 0
  for (let index = 1; index < times.length; index++) longest = Math.max(longest, times[index]! - times[index - 1]!)
  return longest
}

async function answeredAll(parties: Parties, patienceMs: number): Promise<boolean> {
  for (const endMs = Date.now() + patienceMs; Date.now() < endMs; await sleep(LOOK_MS)) {
    if ([...(await parties.sample()).values()].every(({ open }) => open === 0)) return true
  }
  return false
}

/** The oldest calls of each process that have no answer, in words. */
async function unanswered(parties: Parties): Promise<readonly string[]> {
  const samples = [...(await parties.sample())].filter(([, { open }]) => open > 0)
  return samples.map(([party, { open, oldest }]) => `${party}: ${open} calls without an answer, ${oldest.join(', ')}`)
}

const UNFINISHED = `
SELECT EXISTS (SELECT FROM holdfast.ready) OR EXISTS (SELECT FROM holdfast.running) OR EXISTS (SELECT FROM holdfast.blocked)
    OR EXISTS (SELECT FROM holdfast.scheduled) OR EXISTS (SELECT FROM holdfast.held) AS is_busy`

/** Resolves when no job waits or runs; false when that takes too long. Schedules make jobs all the time, so one look may find one. */
async function drained(url: string, patienceMs: number): Promise<boolean> {
  return withClient(url, async (client) => {
    for (const endMs = Date.now() + patienceMs; Date.now() < endMs; await sleep(LOOK_MS)) {
      if (!(await client.query(UNFINISHED)).rows[0].is_busy) return true
    }
    return false
  })
}

const WHERE = `
SELECT asked.id::text,
       CASE WHEN EXISTS (SELECT FROM holdfast.finished WHERE finished.id = asked.id) THEN 'finished'
            WHEN EXISTS (SELECT FROM holdfast.dead WHERE dead.id = asked.id) THEN 'dead'
            WHEN EXISTS (SELECT FROM holdfast.jobs WHERE jobs.id = asked.id) THEN 'waiting'
            ELSE 'missing' END AS whereabouts
  FROM unnest($1::uuid[]) AS asked (id)`

async function whereAre(url: string, lines: readonly AcceptedLine[]): Promise<ReadonlyMap<string, Whereabouts>> {
  const ids = [...new Set(lines.map(({ id }) => id))]
  return withClient(url, async (client) => {
    const { rows } = await client.query<{ id: string; whereabouts: Whereabouts }>(WHERE, [ids])
    return new Map(rows.map(({ id, whereabouts }) => [id, whereabouts]))
  })
}

/** What `holdfast doctor --after-failover` says. */
async function namedWindow(url: string): Promise<NamedWindow | null> {
  const child = spawn(process.execPath, [MAIN, 'doctor', '--after-failover', '--json', '--url', url], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let text = ''
  for await (const chunk of child.stdout.setEncoding('utf8')) text += chunk
  const { failover } = JSON.parse(text) as {
    failover: { at: string; lostFrom: string | null; missingMax?: number } | null
  }
  if (failover === null || failover.lostFrom === null) return null
  return {
    fromMs: Date.parse(failover.lostFrom),
    untilMs: Date.parse(failover.at),
    jobsMax: failover.missingMax ?? 0,
  }
}

async function withClient<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}
