import { describe, expect, test } from 'vitest'
import { checkHistory } from '../../lab/history/check.js'
import type { HistoryEvent, JobClaimed, JobSettled, JobStored, RunBegun, StoreEvent } from '../../lab/history/events.js'
import { smallestOffender, writeStory } from '../../lab/history/story.js'
import type { Invariant } from '../../lab/history/verdict.js'

type Loose<E> = Partial<Omit<E, 'ev'>>

const RUN: RunBegun = {
  ev: 'run',
  seed: '1',
  commit: null,
  leaseMs: 1_000,
  rescueMs: 2_000,
  faults: [{ index: 0, kind: 'kill' }],
  healedAt: 50_000,
  drainMs: 10_000,
  schedules: [],
  busy: { jobs: 0, expiries: 0, unknownAnswers: 0 },
}
const RECORDED = { process: 'p', processRun: 1, mono: 1 } as const

/** Parts of a history about the job `a` unless they say otherwise; times and orders are given where they matter. */
const run = (changes: Loose<RunBegun> = {}): HistoryEvent => ({ ...RUN, ...changes })
const fault = { ...RECORDED, ev: 'fault.begin', kind: 'kill', target: 'w', index: 0 } as const
const ask = (key: string, idempotencyKey: string | null = null, after?: number): HistoryEvent => {
  return { ...RECORDED, ev: 'enqueue.invoke', key, idempotencyKey, ...(after === undefined ? {} : { after }) }
}
const ok = (key: string, job: string | null, created = true): HistoryEvent => {
  return { ...RECORDED, ev: 'enqueue.ok', key, job, created }
}
const stored = (at: number, changes: Loose<JobStored> = {}): StoreEvent => {
  const facts = {
    queue: 'q',
    type: 't',
    state: 'ready',
    priority: 0,
    runAt: null,
    maxAttempts: 3,
    maxCrashes: 3,
  } as const
  const rest = { key: changes.job ?? 'a', idempotencyKey: null, after: [], tick: null }
  return { ev: 'stored', order: at, at, job: 'a', ...facts, ...rest, ...changes }
}
const claimed = (at: number, fence: number, attempt = 1, changes: Loose<JobClaimed> = {}): StoreEvent => {
  return { ev: 'claimed', order: at, at, job: 'a', fence, attempt, worker: 'w', leasedUntil: at + 1_000, ...changes }
}
const settled = (at: number, fence: number, to: JobSettled['to'], changes: Loose<JobSettled> = {}): StoreEvent => {
  const counts = { reason: null, attempts: 1, crashes: 0, notBefore: null, rescued: false }
  return { ev: 'settled', order: at, at, job: 'a', fence, to, ...counts, ...changes }
}
const rescued = (at: number, fence: number, changes: Loose<JobSettled> = {}): StoreEvent => {
  return settled(at, fence, 'ready', { rescued: true, crashes: 1, ...changes })
}
const effect = (at: number, fence: number, inTransaction: boolean, tx?: string): StoreEvent => {
  return {
    ev: 'effect',
    order: at,
    at,
    job: 'a',
    fence,
    attempt: 1,
    inTransaction,
    ...(tx === undefined ? {} : { tx }),
  }
}
const operated = (at: number, action: 'cancel' | 'ask to cancel' | 'requeue' | 'discard', job = 'a'): StoreEvent => {
  const to = action === 'requeue' ? 'ready' : action === 'ask to cancel' ? 'running' : 'cancelled'
  return { ev: 'operated', order: at, at, job, action, to }
}
const final = (state: JobStored['state'] = 'succeeded', job = 'a', attempts = 1): StoreEvent => {
  return { ev: 'final', job, key: job, state, attempts, reason: state === 'dead' ? 'attempts' : null }
}
const tick = (at: number, job: string | null, time = at): StoreEvent => {
  return { ev: 'tick', order: at + 0.5, at, schedule: 's', tick: time, job }
}
const tickJob = (at: number, job: string, time = at): StoreEvent => {
  return stored(at, { job, key: null, tick: { schedule: 's', at: time } })
}
const handler = (ev: 'started' | 'lost_lease', fence: number, mono: number, attempt = 1): HistoryEvent => {
  return { ...RECORDED, ev, job: 'a', fence, mono, attempt }
}
const schedule = (catchUp: 'all' | 'skip', to = 4_000) => ({
  schedules: [{ name: 's', everyMs: 1_000, from: 1_000, to, catchUp }],
})
/** A complete short life of a job, so that only the mistake is wrong. */
const life = (job: string, at: number, changes: Loose<JobStored> = {}): HistoryEvent[] => [
  ask(job),
  stored(at, { job, ...changes }),
  claimed(at + 1, 1, 1, { job }),
  settled(at + 2, 1, 'succeeded', { job }),
  final('succeeded', job),
]

const begun = [run(), fault, ask('a'), stored(1)]
const taken = [...begun, claimed(10, 1)]
const done = [settled(20, 1, 'succeeded'), final()]
/** Ticks of one second each, as they should be. */
const ticks = (...times: number[]): HistoryEvent[] => {
  return times.flatMap((time) => [
    ...life(`s${time}`, time, { key: null, tick: { schedule: 's', at: time } }).slice(1),
    tick(time, `s${time}`),
  ])
}

const BAD: readonly (readonly [Invariant, string, readonly HistoryEvent[]])[] = [
  ['I1', 'an accepted job was never stored', [run(), fault, ask('a'), ok('a', 'a')]],
  ['I1', 'an accepted job has no id', [run(), fault, ask('a'), ok('a', null)]],
  ['I1', 'a stored job is gone at the end', [...taken, settled(20, 1, 'succeeded'), ok('a', 'a')]],
  ['I1', 'a waiting job is something else at the end without a cause', [...begun, final('cancelled')]],
  ['I2', 'a job has a key that no producer made', [run(), fault, stored(1), claimed(10, 1), ...done]],
  ['I2', 'a job has neither key nor tick', [run(), fault, stored(1, { key: null }), claimed(10, 1), ...done]],
  ['I2', 'two jobs for one key', [...taken, ...done, ...life('b', 30, { key: 'a' })]],
  ['I2', 'a job was stored twice', [...taken, stored(15), ...done]],
  [
    'I2',
    'a refused enqueue was written',
    [...taken, ...done, { ...RECORDED, ev: 'enqueue.fail', key: 'a', job: null }],
  ],
  [
    'I2',
    'an enqueue answered as already there was written',
    [
      ...[run(), fault, ...life('h', 1, { idempotencyKey: 'k' })],
      ...[ask('a', 'k'), stored(5), claimed(10, 1), ...done, ok('a', 'h', false)],
    ],
  ],
  ['I2', 'an accepted job has another key', [run(), fault, ...life('b', 1), ask('a'), ok('a', 'b')]],
  ['I2', 'a job was claimed that was never stored', [run(), fault, claimed(10, 1), ...done]],
  ['I3', 'claimed while leased', [...taken, claimed(15, 2, 2), settled(20, 2, 'succeeded', { attempts: 2 }), final()]],
  [
    'I3',
    'rescued before the lease expired',
    [...taken, rescued(500, 1), claimed(510, 2, 2), settled(520, 2, 'succeeded', { attempts: 2, crashes: 1 }), final()],
  ],
  ['I3', 'leased by another clock than the store’s', [...begun, claimed(10, 1, 1, { leasedUntil: 5_000 }), ...done]],
  ['I3', 'one lease, two handlers', [...taken, handler('started', 1, 1), handler('started', 1, 2), ...done]],
  ['I3', 'cancelled out of the hands of its worker', [...taken, operated(15, 'cancel'), final('cancelled', 'a', 0)]],
  [
    'I4',
    'settled by an old fence',
    [
      ...[
        ...taken,
        rescued(1_100, 1),
        claimed(1_200, 5, 2),
        settled(1_300, 1, 'succeeded', { attempts: 1, crashes: 1 }),
        final(),
      ],
    ],
  ],
  [
    'I4',
    'extended by an old fence',
    [
      ...[
        ...taken,
        rescued(1_100, 1),
        claimed(1_200, 5, 2),
        { ev: 'extended', order: 1_250, at: 1_250, job: 'a', fence: 1, leasedUntil: 2_000 } as const,
      ],
      ...[settled(1_300, 5, 'succeeded', { attempts: 2, crashes: 1 }), final()],
    ],
  ],
  [
    'I4',
    'settled after it was released',
    [...taken, settled(20, 1, 'ready', { attempts: 0 }), settled(30, 1, 'succeeded', { attempts: 0 }), final()],
  ],
  [
    'I4',
    'the fence does not grow',
    [
      ...taken,
      rescued(1_100, 1),
      claimed(1_200, 1, 2),
      settled(1_300, 1, 'succeeded', { attempts: 2, crashes: 1 }),
      final(),
    ],
  ],
  ['I4', 'a handler ran under a fence the store never gave', [...taken, handler('started', 7, 1), ...done]],
  [
    'I5',
    'a claim did not count its attempt',
    [...begun, claimed(10, 1, 0), settled(20, 1, 'succeeded', { attempts: 0 }), final()],
  ],
  [
    'I5',
    'a release cost an attempt',
    [...taken, settled(20, 1, 'ready'), claimed(30, 2, 2), settled(40, 2, 'succeeded', { attempts: 2 }), final()],
  ],
  [
    'I5',
    'a failure gave its attempt back',
    [...taken, settled(20, 1, 'retrying', { attempts: 0 }), claimed(30, 2, 1), settled(40, 2, 'succeeded'), final()],
  ],
  [
    'I5',
    'retried beyond its attempts',
    [
      ...[
        run(),
        fault,
        ask('a'),
        stored(1, { maxAttempts: 1 }),
        claimed(10, 1),
        settled(20, 1, 'retrying'),
        claimed(30, 2, 2),
      ],
      ...[settled(40, 2, 'dead', { attempts: 1, reason: 'attempts' }), final('dead')],
    ],
  ],
  [
    'I5',
    'dead before its attempts were used up',
    [...taken, settled(20, 1, 'dead', { reason: 'attempts' }), final('dead')],
  ],
  [
    'I5',
    'dead for crashes that did not happen',
    [...taken, rescued(1_100, 1, { to: 'dead', reason: 'crashed' }), final('dead')],
  ],
  [
    'I5',
    'a crash counted without a rescue, in a run whose workers have no children',
    [
      ...[...taken, settled(300, 1, 'ready', { crashes: 1 }), claimed(400, 2, 2)],
      ...[settled(500, 2, 'succeeded', { attempts: 2, crashes: 1 }), final()],
    ],
  ],
  [
    'I5',
    'a crash was not counted',
    [
      ...taken,
      rescued(1_100, 1, { crashes: 0 }),
      claimed(1_200, 2, 2),
      settled(1_300, 2, 'succeeded', { attempts: 2 }),
      final(),
    ],
  ],
  ['I5', 'dead without a reason', [...taken, settled(20, 1, 'dead'), final('dead')]],
  ['I6', 'two effects in transactions', [...taken, effect(11, 1, true), effect(12, 1, true), ...done]],
  [
    'I6',
    'an effect in a transaction of a job that did not succeed',
    [...taken, effect(11, 1, true), settled(20, 1, 'dead', { reason: 'dropped' }), final('dead')],
  ],
  [
    'I6',
    'effect and success in two transactions',
    [...taken, effect(11, 1, true, 'x'), settled(20, 1, 'succeeded', { tx: 'y' }), final()],
  ],
  [
    'I6',
    'success without the effect of its transaction',
    [run(), fault, ask('a'), stored(1, { effect: 'in transaction' }), claimed(10, 1), ...done],
  ],
  [
    'I6',
    'success without its effect',
    [run(), fault, ask('a'), stored(1, { effect: 'outside' }), claimed(10, 1), ...done],
  ],
  ['I6', 'two effects under one fence', [...taken, effect(11, 1, false), effect(12, 1, false), ...done]],
  ['I6', 'an effect under a fence that was never given', [...taken, effect(11, 9, false), ...done]],
  ['I7', 'a tick missed', [run(schedule('all')), fault, ...ticks(1_000, 3_000)]],
  [
    'I7',
    'a tick missed by a policy that allows it only a minute later',
    [run(schedule('skip')), fault, ...ticks(1_000, 3_000)],
  ],
  [
    'I7',
    'a tick fired twice',
    [run(schedule('all')), fault, ...ticks(1_000, 2_000, 3_000), tick(3_500, 's3000', 3_000)],
  ],
  [
    'I7',
    'two jobs for one tick',
    [
      run(schedule('all')),
      fault,
      ...ticks(1_000, 2_000, 3_000),
      ...life('b', 3_100, { key: null, tick: { schedule: 's', at: 3_000 } }).slice(1),
    ],
  ],
  [
    'I7',
    'a tick before its time',
    [
      run(schedule('all')),
      fault,
      ...ticks(1_000, 2_000),
      ...life('b', 2_900, { key: null, tick: { schedule: 's', at: 3_000 } }).slice(1),
      tick(2_900, 'b', 3_000),
    ],
  ],
  ['I7', 'a tick whose job was never stored', [run(schedule('all', 2_000)), fault, tick(1_000, 'b')]],
  [
    'I7',
    'a job of a tick that was never recorded',
    [run(), fault, tickJob(1_000, 'a'), claimed(1_001, 1), settled(1_002, 1, 'succeeded'), final()],
  ],
  [
    'I7',
    'a tick without a job when nothing was unfinished',
    [run(schedule('all')), fault, ...ticks(1_000, 2_000), tick(3_000, null)],
  ],
  [
    'I8',
    'claimed before its time',
    [
      run(),
      fault,
      ask('a'),
      stored(1, { runAt: 500, state: 'scheduled' }),
      claimed(100, 1),
      settled(120, 1, 'succeeded'),
      final(),
    ],
  ],
  [
    'I8',
    'promoted before its time',
    [
      ...[
        run(),
        fault,
        ask('a'),
        stored(1, { runAt: 500, state: 'scheduled' }),
        { ev: 'promoted', order: 5, at: 5, job: 'a' } as const,
      ],
      ...[claimed(600, 1), settled(620, 1, 'succeeded'), final()],
    ],
  ],
  [
    'I8',
    'a retry before its backoff',
    [
      ...taken,
      settled(20, 1, 'retrying', { notBefore: 900 }),
      claimed(500, 2, 2),
      settled(600, 2, 'succeeded', { attempts: 2 }),
      final(),
    ],
  ],
  [
    'I9',
    'a lower priority claimed past a higher one',
    [
      ...[
        run({ priorityWindowMs: 50 }),
        fault,
        ask('a'),
        ask('b'),
        stored(1, { priority: 5 }),
        stored(2, { job: 'b' }),
      ],
      ...[
        claimed(200, 1, 1, { job: 'b' }),
        claimed(210, 1),
        settled(220, 1, 'succeeded'),
        settled(230, 1, 'succeeded', { job: 'b' }),
        final(),
        final('succeeded', 'b'),
      ],
    ],
  ],
  [
    'I12',
    'a lease expired without a fault',
    [
      ...[run({ faults: [] }), ask('a'), stored(1), claimed(10, 1), rescued(1_100, 1), claimed(1_200, 2, 2)],
      ...[settled(1_300, 2, 'succeeded', { attempts: 2, crashes: 1 }), final()],
    ],
  ],
  [
    'I12',
    'a lease was lost without a fault',
    [run({ faults: [] }), ask('a'), stored(1), claimed(10, 1), handler('lost_lease', 1, 5), ...done],
  ],
  [
    'I13',
    'a finished job was claimed',
    [...taken, settled(20, 1, 'succeeded'), claimed(30, 2, 2), settled(40, 2, 'succeeded', { attempts: 2 }), final()],
  ],
  [
    'I13',
    'a finished job was settled again',
    [...taken, settled(20, 1, 'succeeded'), settled(30, 1, 'dead', { reason: 'dropped' }), final('dead')],
  ],
  [
    'I13',
    'a finished job became ready',
    [
      ...taken,
      settled(20, 1, 'succeeded'),
      { ev: 'promoted', order: 30, at: 30, job: 'a' },
      claimed(40, 2, 2),
      settled(50, 2, 'succeeded', { attempts: 2 }),
      final(),
    ],
  ],
  [
    'I13',
    'a finished job was requeued',
    [
      ...taken,
      settled(20, 1, 'succeeded'),
      operated(30, 'requeue'),
      claimed(40, 2, 1),
      settled(50, 2, 'succeeded'),
      final(),
    ],
  ],
  ['I13', 'a finished job is something else at the end', [...taken, settled(20, 1, 'succeeded'), final('dead')]],
  ['I14', 'a job is unfinished at the end', [...begun, final('ready', 'a', 0)]],
  ['I14', 'a job finished too late', [...begun, claimed(70_000, 1), settled(70_010, 1, 'succeeded'), final()]],
  [
    'I14',
    'a lease was rescued too late',
    [
      ...begun,
      claimed(51_000, 1),
      rescued(55_000, 1),
      claimed(55_010, 2, 2),
      settled(55_020, 2, 'succeeded', { attempts: 2, crashes: 1 }),
      final(),
    ],
  ],
  [
    'I15',
    'an effect begun long after the lease was known lost',
    [
      ...[
        ...taken,
        handler('lost_lease', 1, 100),
        { ...RECORDED, ev: 'effect.begin', job: 'a', fence: 1, mono: 5_000 } as const,
        ...done,
      ],
    ],
  ],
  [
    'I16',
    'two unfinished jobs with one idempotency key',
    [
      ...[
        run(),
        fault,
        ask('a', 'k'),
        ask('b', 'k'),
        stored(1, { idempotencyKey: 'k' }),
        stored(2, { job: 'b', idempotencyKey: 'k' }),
      ],
      ...[
        claimed(10, 1),
        claimed(11, 1, 1, { job: 'b' }),
        settled(20, 1, 'succeeded'),
        settled(21, 1, 'succeeded', { job: 'b' }),
        final(),
        final('succeeded', 'b'),
      ],
    ],
  ],
  [
    'I16',
    'a key that holds for a time given away before',
    [
      ...[
        run(),
        fault,
        ...life('a', 1, { idempotencyKey: 'k', keyTtlMs: 1_000 }),
        ...life('b', 500, { idempotencyKey: 'k' }),
      ],
    ],
  ],
  [
    'I16',
    'answered with a job that has another key',
    [run(), fault, ...life('a', 1, { idempotencyKey: 'k' }), ask('b', 'l'), ok('b', 'a', false)],
  ],
  [
    'I16',
    'a key that was not freed',
    [run(), fault, ...life('a', 1, { idempotencyKey: 'k' }), ask('b', 'k', 5_000), ok('b', 'a', false)],
  ],
  [
    'I16',
    'a child claimed before its parent finished',
    [
      ...[
        run(),
        fault,
        ask('a'),
        ask('b'),
        stored(1),
        stored(2, { job: 'b', after: ['a'], state: 'blocked' }),
        claimed(10, 1),
      ],
      ...[
        claimed(11, 1, 1, { job: 'b' }),
        settled(20, 1, 'succeeded'),
        settled(21, 1, 'succeeded', { job: 'b' }),
        final(),
        final('succeeded', 'b'),
      ],
    ],
  ],
  [
    'I16',
    'a child ran though its parent was dead',
    [
      ...[run(), fault, ...life('a', 1).slice(0, 3), settled(5, 1, 'dead', { reason: 'dropped' }), final('dead')],
      ...life('b', 10, { after: ['a'], onParentDead: 'cancel' }),
    ],
  ],
  [
    'I16',
    'a requested cancel was ignored',
    [
      ...taken,
      operated(15, 'ask to cancel'),
      settled(20, 1, 'retrying'),
      claimed(30, 2, 2),
      settled(40, 2, 'succeeded', { attempts: 2 }),
      final(),
    ],
  ],
  // More of these are in history-late.test.ts.
  [
    'I17',
    'a job waited beside an idle worker',
    [
      run({ lateness: { boundMs: 5_000, graceMs: 1_000, recoverMs: 0, noticeMs: 1_000 } }),
      { ...RECORDED, ev: 'worker.up', storeAt: 0, worker: 'w', of: 'w', queues: ['q'], types: null, slots: 1 },
      ...[fault, ask('a'), stored(1), claimed(9_000, 1), settled(9_010, 1, 'succeeded'), final()],
    ],
  ],
  [
    'I18',
    'a fault was reported as a refusal',
    [run(), fault, ask('a'), { ...RECORDED, ev: 'enqueue.info', key: 'a', job: null, isRefused: true }],
  ],
  [
    'I19',
    'a day past its retention is there',
    [run(), fault, { ev: 'final day', day: '2026-01-01', isGone: false, leftovers: 0, left: 0 }],
  ],
]

describe('the history checker, on histories with one mistake', () => {
  test.each(BAD)('%s: %s', (invariant, _name, events) => {
    const verdict = checkHistory(events)

    expect(new Set(verdict.violations.map((violation) => violation.invariant))).toEqual(new Set([invariant]))
    expect(verdict.ok).toBe(false)
  })

  test('each invariant is among them', () => {
    const named = new Set(BAD.map(([invariant]) => invariant))

    // Those of flow control are in history-flow.test.ts.
    expect(named.size).toBe(17)
  })

  test('the same job without a mistake is clean', () => {
    expect(checkHistory([...taken, ...done]).violations).toEqual([])
  })

  test('a tick without a job is fine when the last job ended between the read and the record of its transaction', () => {
    const skipped = (at: number): HistoryEvent => ({ ...tick(at, null, 3_000), tx: '9' }) as HistoryEvent
    const events = [run(schedule('all')), fault, ...ticks(1_000, 2_000)]

    const soon = checkHistory([...events, skipped(3_500)])
    const late = checkHistory([...events, skipped(9_000)])

    expect(soon.violations).toEqual([])
    expect(late.violations.map(({ invariant }) => invariant)).toEqual(['I7'])
  })

  test('a late tick may be skipped if the policy allows it', () => {
    const events = [run(schedule('skip')), fault, ...ticks(1_000), ...ticks(70_000)]

    expect(checkHistory(events).violations).toEqual([])
  })
})

describe('whether a run counts', () => {
  const busy = { jobs: 1, expiries: 1, unknownAnswers: 1 }

  test('reports what was missing', () => {
    const faults = [
      { index: 0, kind: 'kill' },
      { index: 1, kind: 'pause' },
    ]

    const { counted } = checkHistory([run({ busy, faults, healedAt: null }), fault, ...taken.slice(2), ...done])

    expect(counted.ok).toBe(false)
    expect(counted.reasons.join('\n')).toMatch(
      /accepted[\s\S]*expired[\s\S]*unknown[\s\S]*whole again[\s\S]*1 of 2 planned faults did not fire: 1 \(pause\)/,
    )
  })

  test('is true of a busy run whose faults fired', () => {
    const lost = { ...RECORDED, ev: 'answer.lost', to: 'enqueue' } as const
    const end = [
      rescued(1_100, 1),
      claimed(1_200, 2, 2),
      settled(1_300, 2, 'succeeded', { attempts: 2, crashes: 1 }),
      final(),
    ]

    const verdict = checkHistory([run({ busy }), fault, lost, ...taken.slice(2), ok('a', 'a'), ...end])

    expect(verdict.counted).toEqual({ ok: true, reasons: [] })
    expect(verdict.recovery.max).toBe(190)
    expect(verdict.redeliveries.afterRescue).toBe(1)
  })

  test('is false of a history that does not begin with its run', () => {
    expect(checkHistory([]).counted.ok).toBe(false)
  })
})

describe('the time from the end of a lease to the next claim', () => {
  const ended = [settled(9_010, 2, 'succeeded', { attempts: 2, crashes: 2 }), final('succeeded', 'a', 2)]

  test('does not count the backoff of a suspect, though its rescue counts', () => {
    const suspect = rescued(1_100, 1, { to: 'retrying', notBefore: 9_000 })
    const promoted = { ev: 'promoted', order: 9_000, at: 9_000, job: 'a' } as const

    const verdict = checkHistory([...taken, suspect, promoted, claimed(9_001, 2, 2), ...ended])

    expect([verdict.rescue.count, verdict.rescue.max, verdict.recovery.count]).toEqual([1, 90, 0])
    expect(verdict.redeliveries.afterRescue).toBe(1)
  })

  test('does not count how long a dead job waited for its requeue', () => {
    const died = rescued(1_100, 1, { to: 'dead', reason: 'attempts' })

    const verdict = checkHistory([...taken, died, operated(9_000, 'requeue'), claimed(9_001, 2, 1), ...ended])

    expect([verdict.rescue.count, verdict.recovery.count]).toEqual([1, 0])
    expect(verdict.redeliveries.afterRequeue).toBe(1)
  })
})

describe('the story of a violation', () => {
  test('is of the job with the fewest events, in the order of time', () => {
    const events = [
      ...taken,
      rescued(500, 1),
      claimed(510, 2, 2),
      settled(520, 2, 'succeeded', { attempts: 2, crashes: 1 }),
      final(),
    ]
    const more = [
      ...events,
      ask('b'),
      stored(600, { job: 'b' }),
      claimed(601, 1, 1, { job: 'b', leasedUntil: 9_000 }),
      settled(602, 1, 'succeeded', { job: 'b' }),
      final('succeeded', 'b'),
    ]
    const verdict = checkHistory(more)

    const job = smallestOffender(more, verdict)
    const story = writeStory(more, 'a')

    expect(job).toBe('b')
    const places = [
      'asked',
      'stored as ready',
      'fence 1, attempt 1',
      'rescued from fence 1',
      'fence 2, attempt 2',
      'at the end',
    ].map((part) => story.indexOf(part))
    expect(places).toEqual([...places].sort((a, b) => a - b))
    expect(places[0]).toBeGreaterThan(0)
  })
})
