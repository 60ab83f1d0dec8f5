import { describe, expect, test } from 'vitest'
import { planFaults } from '../../lab/chaos/plan.js'
import { stepOf } from '../../lab/chaos/postgres/collect.js'
import { type ChaosOptions, settingsOf } from '../../lab/chaos/program.js'
import { FAULT_KINDS, FORMS, HOST_KINDS, REDIS_KINDS } from '../../lab/chaos/settings.js'

const OPTIONS: ChaosOptions = {
  ...{ seed: 1, form: 'short', jobs: null, seconds: null, rate: null, minutes: null },
  ...{ only: null, isCalm: false, plant: null, keep: null },
}

describe('the plan of faults', () => {
  test('is the same for the same seed, and another for another', () => {
    const plan = (seed: number) => planFaults({ ...FORMS.short, seed })

    expect(plan(9)).toEqual(plan(9))
    expect(plan(9)).not.toEqual(plan(10))
  })

  test('has at least 100 faults of 12 kinds in the short form and 500 of 15 in the long one', () => {
    const short = planFaults({ ...FORMS.short, seed: 1 })
    const long = planFaults({ ...FORMS.long, seed: 1 })

    expect(short.length).toBeGreaterThanOrEqual(100)
    expect(new Set(short.map(({ kind }) => kind)).size).toBeGreaterThanOrEqual(12)
    expect(long.length).toBeGreaterThanOrEqual(500)
    // The database's clock and workers with children have forms of their own; a disk that can be filled and a standby don't go together.
    const apart = [...HOST_KINDS, ...REDIS_KINDS, 'clock ahead', 'clock back', 'disk full']
    const timed = FAULT_KINDS.filter((kind) => !apart.includes(kind))
    expect(new Set(long.map(({ kind }) => kind))).toEqual(new Set(timed))
  })

  test('of workers with children kills both kinds of processes and has handlers that exit, leak and spin', () => {
    const kinds = new Set(planFaults({ ...FORMS.host, seed: 1 }).map(({ kind }) => kind))

    expect(HOST_KINDS.filter((kind) => !kinds.has(kind))).toEqual([])
    expect(FORMS.host.processes).toBeGreaterThan(1)
  })

  test('of flow control has at least 100 faults, and 1,000 killed workers and 500,000 jobs in the long form', () => {
    const flow = planFaults({ ...FORMS.flow, seed: 1 })
    const long = FORMS['flow-long']
    const killed = planFaults({ ...long, seed: 1 }).filter(({ kind }) => kind === 'kill worker')

    expect(flow.length).toBeGreaterThanOrEqual(100)
    expect(FORMS.flow.jobs).toBeGreaterThanOrEqual(8_000)
    expect(killed.length * long.rounds).toBeGreaterThanOrEqual(1_000)
    expect(long.jobs * long.rounds).toBeGreaterThanOrEqual(500_000)
  })

  test('names targets that exist, in the order of time', () => {
    const plan = planFaults({ ...FORMS.short, seed: 4 })

    const targets = new Set(plan.map(({ target }) => target))
    const known = [
      'worker-1',
      'worker-2',
      'worker-3',
      'worker-4',
      'worker-5',
      'producer-1',
      'producer-2',
      'server',
      'load',
    ]
    expect([...targets].filter((target) => !known.includes(target))).toEqual([])
    expect(plan.map(({ atMs }) => atMs)).toEqual(plan.map(({ atMs }) => atMs).sort((a, b) => a - b))
    expect(plan.map(({ index }) => index)).toEqual(plan.map((_, index) => index))
  })

  test('is limited to the chosen kinds', () => {
    const only = settingsOf({ ...OPTIONS, only: ['deploy'] })
    const calm = settingsOf({ ...OPTIONS, isCalm: true })

    expect(new Set(planFaults(only).map(({ kind }) => kind))).toEqual(new Set(['deploy']))
    expect(planFaults(calm)).toEqual([])
    expect(() => settingsOf({ ...OPTIONS, only: ['earthquake'] })).toThrow(/earthquake/)
  })
})

describe('what the store’s triggers wrote', () => {
  const change = (source: string, changes: object = {}) => {
    const nothing = {
      fence: null,
      attempt: null,
      crashes: null,
      moment: null,
      word: null,
      facts: null,
      placeInGroup: null,
      terms: null,
    }
    return { place: 1, at: 5, began: 5, committed: null, tx: '7', source, id: 'a', ...nothing, ...changes }
  }
  const steps = (...changes: ReturnType<typeof change>[]) => [...stepOf(changes)].map(({ ev }) => ev)

  test('is one step for the changes of one transaction to one job', () => {
    const facts = { type: 't', priority: 0, options: null, key: 'k', effect: null }

    expect(steps(change('jobs_insert', { facts, word: 'q' }), change('running_insert', { fence: 3 }))).toEqual([
      'stored',
      'claimed',
    ])
    expect(steps(change('running_delete', { fence: 3 }), change('dead_insert', { fence: 3 }))).toEqual(['settled'])
    expect(steps(change('ready_insert'))).toEqual(['promoted'])
    expect(steps(change('dead_delete'), change('ready_insert'))).toEqual(['operated'])
    expect(steps(change('effects_inside', { fence: 3 }))).toEqual(['effect'])
    // Carried over from a day that is dropped.
    expect(steps(change('jobs_insert', { facts, word: 'q' }))).toEqual([])
  })

  test('says where a job of a group waits, and what flow control allows', () => {
    const terms = {
      ...{ name: 'stripe', concurrency: 7, rate_limit: null, rate_per_ms: null, rate_burst: null, rate_by_cost: false },
      ...{ position: 'open', probes: 2, forced: null, not_before: 0 },
    } as const
    const [held] = stepOf([change('held_insert', { placeInGroup: 65_536 })])
    const [limit] = stepOf([change('limits', { id: null, terms })])
    const [gone] = stepOf([change('limits_gone', { id: null, terms })])

    expect(held).toMatchObject({ ev: 'promoted', to: 'ready', place: 65_536 })
    expect(limit).toMatchObject({
      ev: 'limit',
      limit: 'stripe',
      concurrency: 7,
      breaker: { position: 'open', probes: 2 },
    })
    expect(gone).toMatchObject({ ev: 'limit', limit: 'stripe', concurrency: null, breaker: null })
  })

  test('is visible to others from its commit on', () => {
    const [late] = stepOf([change('ready_insert', { committed: 900 })])

    expect(late).toMatchObject({ at: 5, committedAt: 900 })
  })

  test('reports when the clock was set during its transaction', () => {
    const [usual] = stepOf([change('ready_insert', { began: 1 })])
    const [ahead] = stepOf([change('ready_insert', { began: 5 - 600_000 })])
    const [back] = stepOf([change('ready_insert', { began: 5 + 300_000 })])

    expect([usual, ahead, back].map((event) => (event as { strayed?: boolean }).strayed)).toEqual([
      undefined,
      true,
      true,
    ])
  })

  test('shows a rescue by the fence that moved on', () => {
    const left = change('running_delete', { fence: 3 })

    const [rescue] = stepOf([left, change('ready_insert', { fence: 4 })])
    const [release] = stepOf([left, change('ready_insert', { fence: 3 })])

    expect(rescue).toMatchObject({ ev: 'settled', rescued: true, fence: 3 })
    expect(release).toMatchObject({ ev: 'settled', rescued: false })
  })
})
