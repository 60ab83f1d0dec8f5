import { describe, expect, test } from 'vitest'
import type { HistoryEvent } from '../../lab/history/events.js'
import { Chance } from '../../lab/simulator/chance.js'
import { hashOf, type Simulation, simulate } from '../../lab/simulator/simulate.js'
import { failureOf } from '../../lab/simulator/tally.js'
import { Timeline } from '../../lab/simulator/timeline.js'

const SEEDS = [1, 2, 3, 4, 5, 6, 7, 8]

describe('virtual time', () => {
  test('every promise that can continue has continued before the next event', async () => {
    const timeline = new Timeline(new Chance('test'))
    const seen: string[] = []
    const hop = async (name: string) => {
      for (let turn = 0; turn < 50; turn++) await null
      seen.push(name)
    }
    timeline.after(2, () => void hop('second'))
    timeline.after(1, () => void hop('first'))
    timeline.after(2, () => void hop('second'))

    await timeline.run(() => false)

    expect(seen).toEqual(['first', 'second', 'second'])
    expect(timeline.nowMs).toBe(2)
  })

  test('events of a dead owner never happen, and events that a paused owner missed happen in order', async () => {
    const timeline = new Timeline(new Chance('test'))
    const seen: string[] = []
    const stopped = { isDead: false, stoppedUntilMs: 10 }
    timeline.after(1, () => seen.push('dead'), { isDead: true, stoppedUntilMs: 0 })
    timeline.after(3, () => seen.push('later'), stopped)
    timeline.after(2, () => seen.push(`missed, at ${timeline.nowMs}`), stopped)

    await timeline.run(() => false)

    expect(seen).toEqual(['missed, at 10', 'later'])
  })

  test('a timer that is cancelled does not fire', async () => {
    const timeline = new Timeline(new Chance('test'))
    const seen: string[] = []
    const timer = timeline.after(2, () => seen.push('cancelled'))
    timeline.after(1, () => timer.cancel())

    await timeline.run(() => false)

    expect(seen).toEqual([])
  })
})

describe('a simulated run', () => {
  test('is the same, bit for bit, each time its seed is run', async () => {
    for (const seed of SEEDS) {
      const one = await simulate(seed)
      const other = await simulate(seed)

      expect(hashOf(other.history)).toBe(hashOf(one.history))
    }
  }, 60_000)

  test('differs from the run of another seed', async () => {
    const hashes = await Promise.all([1, 2].map(async (seed) => hashOf((await simulate(seed)).history)))

    expect(new Set(hashes).size).toBe(2)
  }, 60_000)

  test('over a few seeds has crashes, expired leases, lost answers, ticks, effects, and no violation', async () => {
    const runs: Simulation[] = []
    for (let seed = 1; seed <= 120; seed++) runs.push(await simulate(seed))

    const sum = (of: (run: Simulation) => number) => runs.reduce((all, run) => all + of(run), 0)
    expect(runs.flatMap((run) => failureOf(run) ?? [])).toEqual([])
    expect(sum(({ verdict }) => verdict.counts.faults.crash ?? 0)).toBeGreaterThan(0)
    expect(sum(({ verdict }) => verdict.counts.rescues)).toBeGreaterThan(0)
    expect(sum(({ verdict }) => verdict.counts.answersLost)).toBeGreaterThan(0)
    expect(sum(({ verdict }) => verdict.counts.ticks)).toBeGreaterThan(0)
    expect(sum(({ verdict }) => verdict.counts.effectsInTransaction)).toBeGreaterThan(0)
    expect(sum(({ verdict }) => verdict.redeliveries.afterRequeue)).toBeGreaterThan(0)
    expect(sum(({ verdict }) => verdict.counts.flow.filled)).toBeGreaterThan(0)
    expect(sum(({ verdict }) => verdict.counts.flow.ordered)).toBeGreaterThan(0)
    expect(sum(({ verdict }) => verdict.counts.flow.probes)).toBeGreaterThan(0)
    expect(kindsOf(runs.flatMap(({ history }) => history))).toEqual(EVERY_KIND)
  }, 120_000)

  test('that is aimed at suspects has a job on its last chance beside one that kills its process', async () => {
    const runs: Simulation[] = []
    for (let seed = 1; seed <= 40; seed++) runs.push(await simulate(seed, 'suspects'))

    const crashes = runs.map(({ history }) =>
      Math.max(...history.map((event) => (event.ev === 'settled' ? event.crashes : 0))),
    )
    const isTried = ({ history }: Simulation) =>
      history.some((event) => event.ev === 'settled' && event.crashes === 2 && event.to === 'succeeded')
    expect(runs.flatMap((run) => failureOf(run) ?? [])).toEqual([])
    expect(Math.max(...crashes)).toBe(3)
    expect(runs.filter(isTried).length).toBeGreaterThan(0)
  }, 60_000)
})

const EVERY_KIND = [
  ...['answer.lost', 'claimed', 'effect', 'effect.begin', 'ended', 'enqueue.info', 'enqueue.invoke', 'enqueue.ok'],
  ...[
    'extended',
    'fault.begin',
    'fault.end',
    'final',
    'group',
    'groups',
    'limit',
    'lost_lease',
    'operated',
    'promoted',
  ],
  ...['queue', 'run', 'settled', 'started', 'stored', 'tick', 'worker.down', 'worker.up'],
]

function kindsOf(history: readonly HistoryEvent[]): string[] {
  return [...new Set(history.map(({ ev }) => ev))].filter((ev) => ev !== 'enqueue.fail').sort()
}
