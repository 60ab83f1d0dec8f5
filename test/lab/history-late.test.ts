import { describe, expect, test } from 'vitest'
import { checkHistory } from '../../lab/history/check.js'
import type { HistoryEvent, JobStored, RunBegun, StoreEvent } from '../../lab/history/events.js'

// A job may wait 5 s while a worker has been idle for more than a second; after a fault there are 2 s to recover.
const RUN: RunBegun = {
  ...{ ev: 'run', seed: '1', commit: null, leaseMs: 1_000, rescueMs: 100_000, healedAt: 90_000, drainMs: 100_000 },
  ...{ faults: [{ index: 0, kind: 'cut' }], schedules: [] },
  lateness: { boundMs: 5_000, graceMs: 1_000, recoverMs: 2_000, noticeMs: 3_000 },
  busy: { jobs: 0, expiries: 0, unknownAnswers: 0 },
}
const RECORDED = { process: 'chaos', processRun: 1, mono: 1 } as const
const up = (storeAt = 0, changes: object = {}): HistoryEvent => {
  return {
    ...{ ...RECORDED, ev: 'worker.up', storeAt, worker: 'w', of: 'worker-1', queues: ['q'], types: ['t'], slots: 1 },
    ...changes,
  }
}
const down = (storeAt: number): HistoryEvent => ({ ...RECORDED, ev: 'worker.down', storeAt, worker: 'w' })
const fault = (ev: 'fault.begin' | 'fault.end', storeAt: number, disables?: string): HistoryEvent => {
  const own = { ...RECORDED, ev, kind: 'cut', target: 'worker-1', index: 0, storeAt }
  return disables === undefined ? own : { ...own, disables }
}
const cut = [fault('fault.begin', 0), fault('fault.end', 0)]
const ask = (key: string): HistoryEvent => ({ ...RECORDED, ev: 'enqueue.invoke', key, idempotencyKey: null })
const stored = (job: string, at: number, changes: Partial<JobStored> = {}): HistoryEvent[] => {
  const facts = { queue: 'q', type: 't', state: 'ready', priority: 0, runAt: null, maxAttempts: 9 } as const
  const rest = { maxCrashes: 3, key: job, idempotencyKey: null, after: [], tick: null }
  return [ask(job), { ev: 'stored', order: at, at, job, ...facts, ...rest, ...changes }]
}
const claimed = (job: string, at: number, changes: object = {}): StoreEvent => {
  const own = { fence: at, attempt: 1, worker: 'w', leasedUntil: at + 1_000 }
  return { ev: 'claimed', order: at, at, job, ...own, ...changes }
}
const settled = (job: string, at: number, fence: number, changes: object = {}): StoreEvent => {
  const counts = { reason: null, attempts: 1, crashes: 0, notBefore: null, rescued: false }
  return { ev: 'settled', order: at, at, job, fence, to: 'succeeded', ...counts, ...changes }
}
const final = (job: string): StoreEvent => {
  return { ev: 'final', job, key: job, state: 'succeeded', attempts: 1, reason: null }
}
const promoted = (job: string, at: number): StoreEvent => ({ ev: 'promoted', order: at, at, job })
/** Claimed at that time, and done. */
const ends = (job: string, at: number): HistoryEvent[] => [claimed(job, at), settled(job, at + 10, at), final(job)]
/** Stored and immediately claimed and done. */
const parent = (job: string, at: number): HistoryEvent[] => [...stored(job, at), ...ends(job, at + 1)]
/** Released, not started: the attempt does not count. */
const releases = (job: string, ...times: number[]): HistoryEvent[] => {
  return times.flatMap((at) => [claimed(job, at), settled(job, at + 10, at, { to: 'ready', attempts: 0 })])
}

const LATE: readonly (readonly [string, readonly HistoryEvent[]])[] = [
  ['ready, and claimed too late', [up(), ...cut, ...stored('a', 100), ...ends('a', 20_000)]],
  [
    'due, and made ready too late',
    [
      up(),
      ...cut,
      ...stored('a', 100, { state: 'scheduled', runAt: 500 }),
      promoted('a', 19_000),
      ...ends('a', 19_001),
    ],
  ],
  [
    'its parents have finished, and it stayed blocked',
    [
      ...[
        up(),
        ...cut,
        ...stored('a', 100),
        ...stored('b', 101, { state: 'blocked', after: ['a'] }),
        ...ends('a', 200),
      ],
      ...[promoted('b', 20_000), ...ends('b', 20_001)],
    ],
  ],
  [
    'its parents had finished before it was written, and it was written as blocked',
    [
      ...[up(), ...cut, ...parent('a', 100), ...stored('b', 300, { state: 'blocked', after: ['a'] })],
      ...[promoted('b', 20_000), ...ends('b', 20_001)],
    ],
  ],
  [
    'released again and again, and never started',
    [up(), ...cut, ...stored('a', 100), ...releases('a', 3_000, 6_000, 9_000, 12_000, 15_000), ...ends('a', 18_000)],
  ],
  [
    'another job holds the worker’s one slot, but another worker is idle',
    [
      ...[up(), up(0, { worker: 'v', of: 'worker-2' }), ...cut, ...stored('b', 50), claimed('b', 60)],
      ...[...stored('a', 100), ...ends('a', 20_000), settled('b', 20_001, 60), final('b')],
    ],
  ],
  [
    'overtaken by others the whole time',
    [
      ...[up(0, { slots: 2 }), ...cut, ...stored('a', 100)],
      ...[5_000, 10_000, 15_000].flatMap((at) => parent(`b${at}`, at)),
      ...ends('a', 20_000),
    ],
  ],
  [
    'overtaken by others that came later, one after the other',
    [
      ...[up(0, { slots: 2 }), ...cut, ...stored('a', 100)],
      ...Array.from({ length: 38 }, (_, turn) => parent(`b${turn}`, 500 + turn * 500)).flat(),
      ...ends('a', 20_000),
    ],
  ],
  [
    'a fault that affected another process',
    [up(), fault('fault.begin', 50, 'worker-2'), ...stored('a', 100), ...ends('a', 20_000)],
  ],
]

const IN_TIME: readonly (readonly [string, readonly HistoryEvent[]])[] = [
  ['claimed within the bound', [up(), ...cut, ...stored('a', 100), ...ends('a', 5_000)]],
  ['no worker was up', [up(18_000), ...cut, ...stored('a', 100), ...ends('a', 20_000)]],
  [
    'its worker was gone',
    [up(), down(200), ...cut, ...stored('a', 100), up(18_000, { worker: 'v' }), ...ends('a', 20_000)],
  ],
  ['no worker serves its queue', [up(0, { queues: ['r'] }), ...cut, ...stored('a', 100), ...ends('a', 20_000)]],
  ['no worker knows its type', [up(0, { types: ['u'] }), ...cut, ...stored('a', 100), ...ends('a', 20_000)]],
  [
    'its queue was paused',
    [
      ...[up(), ...cut, { ev: 'queue', isPaused: true, order: 50, at: 50, queue: 'q' } as const, ...stored('a', 100)],
      ...[{ ev: 'queue', isPaused: false, order: 18_000, at: 18_000, queue: 'q' } as const, ...ends('a', 20_000)],
    ],
  ],
  [
    'the one slot was taken',
    [
      up(),
      ...cut,
      ...stored('b', 50),
      claimed('b', 60),
      ...stored('a', 100),
      settled('b', 18_000, 60),
      final('b'),
      ...ends('a', 20_000),
    ],
  ],
  [
    'its worker took those before it one after the other, with a slot free between any two claims',
    [
      ...[up(0, { slots: 2 }), ...cut],
      ...Array.from({ length: 39 }, (_, turn) => stored(`b${turn}`, 50)).flat(),
      ...stored('a', 10_100),
      ...Array.from({ length: 39 }, (_, turn) => ends(`b${turn}`, 500 + turn * 500)).flat(),
      ...ends('a', 20_000),
    ],
  ],
  [
    'the slot was never idle for long',
    [
      up(),
      ...cut,
      ...stored('a', 100),
      ...Array.from({ length: 19 }, (_, turn) => busy(turn)).flat(),
      ...ends('a', 19_500),
    ],
  ],
  [
    'its worker was struck',
    [up(), fault('fault.begin', 50, 'worker-1'), ...stored('a', 100), fault('fault.end', 15_000), ...ends('a', 20_000)],
  ],
  [
    'all were struck',
    [up(), fault('fault.begin', 50, 'all'), ...stored('a', 100), fault('fault.end', 15_000), ...ends('a', 20_000)],
  ],
  [
    'the machine was overloaded',
    [
      up(),
      ...cut,
      { ...RECORDED, ev: 'busy', storeAt: 50, untilAt: 15_000 } as const,
      ...stored('a', 100),
      ...ends('a', 20_000),
    ],
  ],
  ['it was committed late', [up(), ...cut, ...stored('a', 100, { committedAt: 17_000 }), ...ends('a', 20_000)]],
  [
    'its time had not come',
    [
      up(),
      ...cut,
      ...stored('a', 100, { state: 'scheduled', runAt: 18_000 }),
      promoted('a', 18_001),
      ...ends('a', 20_000),
    ],
  ],
  [
    'its parent had not finished',
    [
      ...[up(0, { slots: 2 }), ...cut, ...stored('a', 100), claimed('a', 101)],
      ...[...stored('b', 110, { state: 'blocked', after: ['a'] }), settled('a', 19_000, 101), final('a')],
      ...[promoted('b', 19_001), ...ends('b', 20_000)],
    ],
  ],
  ['nothing is to be looked at', [up(), ...cut, ...stored('a', 100), ...ends('a', 20_000)]],
]

/** Another job that holds the slot for most of a second. */
function busy(turn: number): HistoryEvent[] {
  const at = 200 + turn * 1_000
  return [
    ...stored(`b${turn}`, at),
    claimed(`b${turn}`, at + 1),
    settled(`b${turn}`, at + 500, at + 1),
    final(`b${turn}`),
  ]
}

const violationsOf = (events: readonly HistoryEvent[], run: RunBegun = RUN) => {
  return checkHistory([run, ...events]).violations.map(({ invariant, job }) => `${invariant} ${job}`)
}

describe('the history checker, on jobs that could have been started', () => {
  test.each(LATE)('finds one that was late: %s', (name, events) => {
    expect(violationsOf(events)).toEqual([name.includes('parents') ? 'I17 b' : 'I17 a'])
  })

  test.each(IN_TIME)('finds nothing where %s', (name, events) => {
    const run = name.startsWith('nothing') ? { ...RUN, lateness: null } : RUN

    expect(violationsOf(events, run)).toEqual([])
  })

  test('finds a job that was never claimed, beside the report that it is unfinished', () => {
    const events = [up(), ...cut, ...stored('a', 100), ...parent('b', 30_000)]
    const left: HistoryEvent = { ev: 'final', job: 'a', key: 'a', state: 'ready', attempts: 0, reason: null }

    expect(violationsOf([...events, left])).toEqual(['I14 a', 'I17 a'])
  })
})

describe('the history checker, on jobs that were done', () => {
  const effect: StoreEvent = {
    ev: 'effect',
    order: 300,
    at: 300,
    job: 'a',
    fence: 200,
    attempt: 1,
    inTransaction: false,
  }
  const doneAt = (at: number) => [
    ...cut,
    up(),
    ...stored('a', 100),
    claimed('a', 200),
    effect,
    settled('a', at, 200),
    final('a'),
  ]

  test('finds one that was settled late by a healthy worker', () => {
    expect(violationsOf(doneAt(9_000))).toEqual(['I17 a'])
  })

  test('finds nothing where it was settled in time, or its worker was cut off', () => {
    const off = [fault('fault.begin', 400, 'worker-1'), fault('fault.end', 8_000)]

    expect(violationsOf(doneAt(5_000))).toEqual([])
    expect(violationsOf([...off, ...doneAt(9_000).slice(cut.length)])).toEqual([])
  })
})

describe('the history checker, on days past their retention', () => {
  const day = { ev: 'final day', day: '2026-01-01', isGone: true, leftovers: 3, left: 3 } as const

  test('finds one that was not dropped, and one that was dropped with its live jobs', () => {
    const kept = violationsOf([...cut, { ...day, isGone: false }])
    const lost = violationsOf([...cut, { ...day, left: 2 }])

    expect([kept, lost]).toEqual([['I19 null'], ['I19 null']])
    expect(violationsOf([...cut, day])).toEqual([])
  })
})

test('the history checker finds an enqueue that a fault refused as not retryable', () => {
  const info = { ...RECORDED, ev: 'enqueue.info', key: 'a', job: null } as const

  expect(violationsOf([...cut, ask('a'), { ...info, isRefused: true }])).toEqual(['I18 null'])
  expect(violationsOf([...cut, ask('a'), info])).toEqual([])
})

describe('the history checker, on handlers whose lease was rescued', () => {
  const effect = (at: number): StoreEvent => {
    return { ev: 'effect', order: at, at, job: 'a', fence: 200, attempt: 1, inTransaction: false }
  }
  const taken = [
    ...[
      up(),
      ...stored('a', 100),
      claimed('a', 200),
      settled('a', 5_000, 200, { to: 'ready', rescued: true, crashes: 1 }),
    ],
    ...[claimed('a', 5_001, { attempt: 2 }), settled('a', 5_010, 5_001, { attempts: 2, crashes: 1 })],
    { ...final('a'), attempts: 2 } as StoreEvent,
  ]

  test('finds one that continued for long in a healthy process', () => {
    expect(violationsOf([...cut, ...taken, effect(9_500)])).toEqual(['I15 a'])
  })

  test('finds nothing where it ended soon, or its process was paused', () => {
    const stopped = [fault('fault.begin', 300, 'worker-1'), fault('fault.end', 7_000)]

    expect(violationsOf([...cut, ...taken, effect(7_000)])).toEqual([])
    expect(violationsOf([...stopped, ...taken, effect(9_500)])).toEqual([])
  })
})
