import { describe, expect, test } from 'vitest'
import { checkHistory } from '../../lab/history/check.js'
import type {
  GroupChanged,
  GroupsChanged,
  HistoryEvent,
  JobClaimed,
  JobSettled,
  JobStored,
  LimitChanged,
  RunBegun,
  StoreEvent,
} from '../../lab/history/events.js'
import type { Invariant } from '../../lab/history/verdict.js'

// A group may wait 1 s beside a free slot and an idle worker, and 2 s longer while a fault is on.
const RUN: RunBegun = {
  ...{ ev: 'run', seed: '1', commit: null, leaseMs: 1_000, rescueMs: 100_000, healedAt: 90_000, drainMs: 100_000 },
  ...{ faults: [{ index: 0, kind: 'cut' }], schedules: [] },
  lateness: { boundMs: 50_000, graceMs: 1_000, recoverMs: 500, noticeMs: 3_000 },
  flow: { visibleMs: 20, heldMs: 1_000, allowanceMs: 2_000 },
  busy: { jobs: 0, expiries: 0, unknownAnswers: 0 },
}
const RECORDED = { process: 'chaos', processRun: 1, mono: 1 } as const
const up = (changes: object = {}): HistoryEvent => {
  const own = { worker: 'w', of: 'worker-1', queues: ['q'], types: ['t'], slots: 10 }
  return { ...RECORDED, ev: 'worker.up', storeAt: 0, ...own, ...changes }
}
const fault = (ev: 'fault.begin' | 'fault.end', storeAt: number): HistoryEvent => {
  return { ...RECORDED, ev, kind: 'cut', target: 'worker-1', index: 0, storeAt }
}
const busy = (storeAt: number, untilAt: number): HistoryEvent => ({ ...RECORDED, ev: 'busy', storeAt, untilAt })
const begun = [RUN, up(), fault('fault.begin', 0), fault('fault.end', 0)]

/** Settings are made at a time before all jobs unless they say otherwise. */
const limit = (changes: Partial<LimitChanged> = {}): StoreEvent => {
  const own = { limit: 'x', concurrency: null, rate: null, breaker: null, notBefore: null }
  return { ev: 'limit', order: 0, at: 0, ...own, ...changes }
}
const groups = (changes: Partial<GroupsChanged> = {}): StoreEvent => {
  const own = { queue: 'q', concurrency: null, rate: null, ordered: false, onRetry: 'wait' } as const
  return { ev: 'groups', order: 0, at: 0, ...own, ...changes }
}
const group = (changes: Partial<GroupChanged> = {}): StoreEvent => {
  const own = { queue: 'q', group: 'g', isPaused: false, notBefore: null, override: null }
  return { ev: 'group', order: 0, at: 0, ...own, ...changes }
}
const open = (at: number, position: 'open' | 'half_open' | 'closed', probes = 2): StoreEvent => {
  return limit({ order: at, at, breaker: { position, probes } })
}
const rate = (perSecond: number, burst: number) =>
  ({ limit: perSecond, perMs: 1_000, burst, counts: 'starts' }) as const

const stored = (job: string, at: number, changes: Partial<JobStored> = {}): HistoryEvent[] => {
  const facts = { queue: 'q', type: 't', state: 'ready', priority: 0, runAt: null, maxAttempts: 9 } as const
  const rest = { maxCrashes: 3, key: job, idempotencyKey: null, after: [], tick: null, limits: ['x'] }
  const ask: HistoryEvent = { ...RECORDED, ev: 'enqueue.invoke', key: job, idempotencyKey: null }
  return [ask, { ev: 'stored', order: at, at, job, ...facts, ...rest, ...changes }]
}
const grouped = (job: string, at: number, changes: Partial<JobStored> = {}): HistoryEvent[] => {
  return stored(job, at, { group: 'g', limits: [], ...changes })
}
const claimed = (job: string, at: number, changes: Partial<JobClaimed> = {}): StoreEvent => {
  const own = { fence: at, attempt: 1, worker: 'w', leasedUntil: at + 1_000 }
  return { ev: 'claimed', order: at, at, job, ...own, ...changes }
}
const settled = (job: string, at: number, fence: number, changes: Partial<JobSettled> = {}): StoreEvent => {
  const counts = { reason: null, attempts: 1, crashes: 0, notBefore: null, rescued: false }
  return { ev: 'settled', order: at, at, job, fence, to: 'succeeded', ...counts, ...changes }
}
const retried = (job: string, at: number, fence: number): StoreEvent => {
  return settled(job, at, fence, { to: 'retrying', notBefore: at + 10 })
}
const promoted = (job: string, at: number): StoreEvent => ({ ev: 'promoted', order: at, at, job })
const cancelled = (job: string, at: number): StoreEvent => {
  return { ev: 'operated', order: at, at, job, action: 'cancel', to: 'cancelled' }
}
const final = (job: string, attempts = 1, state: 'succeeded' | 'cancelled' = 'succeeded'): StoreEvent => {
  return { ev: 'final', job, key: job, state, attempts, reason: null }
}
/** Claimed at one time and done at another. */
const ran = (job: string, at: number, until: number, changes: Partial<JobClaimed> = {}): HistoryEvent[] => {
  return [claimed(job, at, changes), settled(job, until, changes.fence ?? at), final(job)]
}
/** The second attempt. */
const again = (job: string, at: number, until: number): HistoryEvent[] => {
  return [claimed(job, at, { attempt: 2 }), settled(job, until, at, { attempts: 2 }), final(job, 2)]
}
const repaired: HistoryEvent = { ...RECORDED, ev: 'flow.repaired', count: 2 }
const ok = (job: string, wall: number): HistoryEvent => {
  return { ...RECORDED, ev: 'enqueue.ok', key: job, job, created: true, wall }
}

const two = [...stored('a', 1), ...stored('b', 2)]
const pair = [...grouped('a', 1), ...grouped('b', 2)]
const ordered = groups({ ordered: true })
const passing = groups({ ordered: true, onRetry: 'pass' })
const halfOpen = [open(5, 'open'), open(10, 'half_open', 1)]

const BAD: readonly (readonly [Invariant, string, readonly HistoryEvent[]])[] = [
  [
    'I11',
    'two leases of a limit of one',
    [limit({ concurrency: 1 }), ...two, ...ran('a', 10, 30), ...ran('b', 20, 40)],
  ],
  [
    'I11',
    'two leases of a limit of one, in two queues',
    [
      ...[
        up({ worker: 'v', queues: ['r'] }),
        limit({ concurrency: 1 }),
        ...stored('a', 1),
        ...stored('b', 2, { queue: 'r' }),
      ],
      ...[...ran('a', 10, 30), ...ran('b', 20, 40)],
    ],
  ],
  [
    'I11',
    'plain jobs beyond the concurrency of their queue',
    [
      ...[
        limit({ limit: 'queue:q', concurrency: 1 }),
        ...stored('a', 1, { limits: [] }),
        ...stored('b', 2, { limits: [] }),
      ],
      ...[...ran('a', 10, 30), ...ran('b', 20, 40)],
    ],
  ],
  [
    'I11',
    'the three that one claim took where two had room',
    [
      ...[limit({ concurrency: 2 }), ...two, ...stored('c', 3)],
      ...[...ran('a', 10, 30), ...ran('b', 10, 30), ...ran('c', 10, 30)],
    ],
  ],
  [
    'I11',
    'a start while the settlement that frees the slot was not committed',
    [
      ...[limit({ concurrency: 1 }), ...two, claimed('a', 10), settled('a', 15, 10, { committedAt: 60 }), final('a')],
      ...ran('b', 20, 40),
    ],
  ],
  ['I11', 'two of a group of one', [groups({ concurrency: 1 }), ...pair, ...ran('a', 10, 30), ...ran('b', 20, 40)]],
  [
    'I11',
    'two of a group whose own settings allow one',
    [
      ...[groups({ concurrency: 5 }), group({ override: { concurrency: 1, rate: null } }), ...pair],
      ...[...ran('a', 10, 30), ...ran('b', 20, 40)],
    ],
  ],
  [
    'I11',
    'a start beyond a limit that was lowered long before',
    [
      ...[limit({ concurrency: 5 }), limit({ concurrency: 1, order: 50, at: 50, committedAt: 55 }), ...two],
      ...[claimed('a', 10), claimed('b', 80), settled('a', 100, 10), settled('b', 101, 80), final('a'), final('b')],
    ],
  ],
  [
    'I11',
    'a start of a group that was paused',
    [groups(), group({ isPaused: true }), ...grouped('a', 1), ...ran('a', 10, 20)],
  ],
  [
    'I11',
    'a start before the time a limit was told',
    [limit({ notBefore: 500 }), ...stored('a', 1), ...ran('a', 100, 200)],
  ],
  [
    'I11',
    'a start beside a job of an ordered group that waits for its retry',
    [
      ...[ordered, ...pair, claimed('a', 10), retried('a', 20, 10)],
      ...[...ran('b', 25, 28), promoted('a', 30), ...again('a', 31, 40)],
    ],
  ],
  [
    'I11',
    'more starts than the burst',
    [
      ...[limit({ rate: rate(10, 2) }), ...two, ...stored('c', 3)],
      ...[...ran('a', 10, 11), ...ran('b', 20, 21), ...ran('c', 30, 31)],
    ],
  ],
  [
    'I11',
    'more starts of a group than its rate',
    [groups({ rate: rate(10, 1) }), ...pair, ...ran('a', 10, 11), ...ran('b', 60, 61)],
  ],
  [
    'I11',
    'more starts than the rate after a rest',
    [
      ...[limit({ rate: rate(10, 2) }), ...two, ...stored('c', 3), ...stored('d', 4), ...ran('a', 10, 11)],
      ...[...ran('b', 600, 601), ...ran('c', 601, 602), ...ran('d', 602, 603)],
    ],
  ],
  ['I10', 'the later job of an ordered group first', [ordered, ...pair, ...ran('b', 10, 20), ...ran('a', 30, 40)]],
  [
    'I10',
    'the later job of another track of an ordered group first',
    [
      ...[ordered, limit({ concurrency: 5 }), ...grouped('a', 1, { limits: ['x'] }), ...grouped('b', 2)],
      ...[...ran('b', 10, 20), ...ran('a', 30, 40)],
    ],
  ],
  [
    'I10',
    'a retry that is due, passed by a later job',
    [
      ...[passing, ...grouped('a', 1), ...grouped('b', 2), ...grouped('c', 3), claimed('a', 10), retried('a', 12, 10)],
      ...[...ran('b', 13, 15), promoted('a', 30), ...ran('c', 80, 81), ...again('a', 90, 91)],
    ],
  ],
  [
    'I10',
    'a job whose enqueue had been answered, passed by one of a later enqueue',
    [
      ...[ordered, ...grouped('a', 1, { committedAt: 2 }), ok('a', 3), ...grouped('b', 4, { committedAt: 5 })],
      ...[...ran('b', 12, 20, { began: 10, committedAt: 13 }), ...ran('a', 30, 40)],
    ],
  ],
  ['I20', 'a start while a breaker was open', [limit(), open(5, 'open'), ...stored('a', 1), ...ran('a', 10, 20)]],
  [
    'I20',
    'more probes than a half-open breaker has',
    [limit(), ...halfOpen, ...two, ...ran('a', 10, 30), ...ran('b', 20, 40)],
  ],
  ['I21', 'a group that the store found forgotten', [limit(), repaired]],
  [
    'I22',
    'a job waited beside a free slot',
    [limit({ concurrency: 1 }), ...stored('a', 5_000), ...ran('a', 6_200, 6_210)],
  ],
  [
    'I22',
    'a group waited after its slot was free',
    [
      ...[groups({ concurrency: 1 }), ...grouped('a', 5_000), ...grouped('b', 5_001)],
      ...[...ran('a', 5_010, 5_500), ...ran('b', 6_600, 6_610)],
    ],
  ],
  [
    'I22',
    'the first job of an ordered group waited',
    [ordered, ...grouped('a', 5_000), ...grouped('b', 5_001), ...ran('a', 6_200, 6_210), ...ran('b', 6_220, 6_230)],
  ],
  [
    'I22',
    'a job waited for longer than a fault excuses',
    [
      ...[limit({ concurrency: 1 }), fault('fault.begin', 5_000), fault('fault.end', 9_000)],
      ...[...stored('a', 5_000), ...ran('a', 8_200, 8_210)],
    ],
  ],
  [
    'I22',
    'a job waited for longer than an overload excuses',
    [limit({ concurrency: 1 }), busy(3_000, 5_000), ...stored('a', 4_000), ...ran('a', 8_200, 8_210)],
  ],
  [
    'I22',
    'a job waited long after an overload',
    [limit({ concurrency: 1 }), busy(3_000, 5_000), ...stored('a', 5_600), ...ran('a', 6_800, 6_810)],
  ],
  [
    'I22',
    'a job waited while its bucket was full again',
    [
      limit({ rate: rate(10, 1) }),
      ...stored('a', 5_001),
      ...stored('b', 5_002),
      ...ran('a', 5_010, 5_020),
      ...ran('b', 6_300, 6_310),
    ],
  ],
]

const GOOD: readonly (readonly [string, readonly HistoryEvent[]])[] = [
  ['one after the other', [limit({ concurrency: 1 }), ...two, ...ran('a', 10, 20), ...ran('b', 20, 30)]],
  [
    'a start that committed after the settlement before it',
    [
      ...[limit({ concurrency: 1 }), ...two, claimed('a', 10), settled('a', 15, 10, { committedAt: 30 }), final('a')],
      ...ran('b', 20, 40, { committedAt: 31 }),
    ],
  ],
  [
    'a start after the lease before it ran out, which was not rescued yet',
    [
      ...[limit({ concurrency: 1 }), ...two, claimed('a', 10), ...ran('b', 1_011, 1_020)],
      ...[settled('a', 1_030, 10, { to: 'ready', rescued: true, crashes: 1 }), claimed('a', 1_040, { attempt: 2 })],
      ...[settled('a', 1_050, 1_040, { attempts: 2, crashes: 1 }), final('a', 2)],
    ],
  ],
  [
    'what ran when the limit was lowered may end',
    [
      ...[
        limit({ concurrency: 2 }),
        ...two,
        claimed('a', 10),
        claimed('b', 11),
        limit({ concurrency: 1, order: 20, at: 20 }),
      ],
      ...[settled('a', 100, 10), settled('b', 101, 11), final('a'), final('b')],
    ],
  ],
  [
    'a claim that was under way when the limit was lowered',
    [
      ...[
        limit({ concurrency: 2 }),
        limit({ concurrency: 1, order: 50, at: 50, committedAt: 55 }),
        ...two,
        claimed('a', 10),
      ],
      ...[claimed('b', 60, { began: 49 }), settled('a', 100, 10), settled('b', 101, 60), final('a'), final('b')],
    ],
  ],
  [
    'a limit that was raised',
    [
      limit({ concurrency: 1 }),
      limit({ concurrency: 2, order: 15, at: 15 }),
      ...two,
      ...ran('a', 10, 30),
      ...ran('b', 20, 40),
    ],
  ],
  [
    'groups beside each other',
    [
      groups({ concurrency: 1 }),
      ...grouped('a', 1),
      ...grouped('b', 2, { group: 'h' }),
      ...ran('a', 10, 30),
      ...ran('b', 20, 40),
    ],
  ],
  [
    'the group that has more of its own',
    [
      ...[groups({ concurrency: 1 }), group({ override: { concurrency: 2, rate: null } }), ...pair],
      ...[...ran('a', 10, 30), ...ran('b', 20, 40)],
    ],
  ],
  [
    'a group that was resumed',
    [groups(), group({ isPaused: true }), group({ order: 5, at: 5 }), ...grouped('a', 1), ...ran('a', 10, 20)],
  ],
  [
    'as many starts as the bucket gives',
    [
      ...[limit({ rate: rate(10, 2) }), ...two, ...stored('c', 3)],
      ...[...ran('a', 10, 11), ...ran('b', 20, 21), ...ran('c', 110, 111)],
    ],
  ],
  [
    'starts whose claims waited for their turn: their rows came closer than their looks',
    [
      ...[limit({ rate: rate(10, 1) }), ...two],
      ...[
        ...ran('a', 100, 300, { began: 10, committedAt: 101 }),
        ...ran('b', 150, 301, { began: 20, committedAt: 151 }),
      ].slice(0, 3),
      cancelled('b', 200),
      final('b', 0, 'cancelled'),
    ],
  ],
  ['ordered jobs in their order', [ordered, ...pair, ...ran('a', 10, 20), ...ran('b', 20, 30)]],
  [
    'an earlier job that nobody could see yet',
    [
      ...[ordered, ...grouped('a', 1, { committedAt: 40 }), ...grouped('b', 2)],
      ...[...ran('b', 10, 20), ...ran('a', 50, 60)],
    ],
  ],
  [
    'an earlier job that was committed while the later one was being claimed',
    [
      ...[ordered, ...grouped('a', 1, { committedAt: 5 }), ok('a', 12), ...grouped('b', 2)],
      ...[...ran('b', 14, 20, { began: 12 }), ...ran('a', 50, 60)],
    ],
  ],
  [
    'an ordered group that waits for a retry',
    [
      ...[ordered, ...pair, claimed('a', 10), retried('a', 20, 10), promoted('a', 30)],
      ...[...again('a', 31, 40), ...ran('b', 41, 50)],
    ],
  ],
  [
    'an ordered group that passes a retry, which comes first when it is due',
    [
      ...[passing, ...grouped('a', 1), ...grouped('b', 2), ...grouped('c', 3), claimed('a', 10), retried('a', 12, 10)],
      ...[...ran('b', 13, 15), promoted('a', 30), ...again('a', 31, 40), ...ran('c', 41, 42)],
    ],
  ],
  [
    'a dead job that was requeued to the end of its group',
    [
      ...[ordered, ...pair, ...ran('b', 30, 40), ...grouped('c', 3)],
      ...[claimed('a', 10), settled('a', 12, 10, { to: 'dead', reason: 'dropped' })],
      { ev: 'operated', order: 14, at: 14, job: 'a', action: 'requeue', to: 'ready', place: 100 } as const,
      ...[...ran('c', 41, 50), ...ran('a', 51, 60)],
    ],
  ],
  [
    'the first probe, whose claim made the breaker half open',
    [limit(), open(5, 'open'), ...stored('a', 1), ...ran('a', 10, 20, { committedAt: 12 }), open(11, 'half_open', 1)],
  ],
  [
    'a job behind a full limit',
    [
      limit({ concurrency: 1 }),
      ...two,
      claimed('a', 10, { leasedUntil: 1_010 }),
      extended('a', 1_000, 10),
      settled('a', 1_900, 10),
      final('a'),
      ...ran('b', 1_910, 1_920),
    ],
  ],
  [
    'a job behind an empty bucket',
    [limit({ rate: { ...rate(1, 1), perMs: 3_000 } }), ...two, ...ran('a', 10, 20), ...ran('b', 3_015, 3_020)],
  ],
  [
    'a job of a paused group',
    [
      ...[groups(), group({ isPaused: true }), group({ order: 4_000, at: 4_000 })],
      ...[...grouped('a', 1), ...ran('a', 4_100, 4_110)],
    ],
  ],
  [
    'a job behind an open breaker',
    [limit(), open(5, 'open'), ...stored('a', 6), open(4_000, 'half_open'), ...ran('a', 4_000, 4_010)],
  ],
  [
    'a job that waited while a fault was on',
    [
      ...[limit({ concurrency: 1 }), fault('fault.begin', 5_000), fault('fault.end', 9_000)],
      ...[...stored('a', 5_000), ...ran('a', 7_200, 7_210)],
    ],
  ],
  [
    'a job in the backlog that an overload left',
    [limit({ concurrency: 1 }), busy(3_000, 5_000), ...stored('a', 4_000), ...ran('a', 7_500, 7_510)],
  ],
  [
    'a job beside a busy worker',
    [
      ...[up({ worker: 'v', slots: 1, queues: ['r'] }), limit({ concurrency: 9 }), ...stored('a', 1, { queue: 'r' })],
      ...[...stored('b', 2, { queue: 'r' }), claimed('a', 10, { worker: 'v' }), extended('a', 1_000, 10)],
      ...[settled('a', 1_900, 10), final('a'), ...ran('b', 1_910, 1_920, { worker: 'v' })],
    ],
  ],
]

function extended(job: string, at: number, fence: number): StoreEvent {
  return { ev: 'extended', order: at, at, job, fence, leasedUntil: at + 1_000 }
}

describe('the history checker, on flow control', () => {
  test.each(BAD)('%s is violated: %s', (invariant, _, events) => {
    const verdict = checkHistory([...begun, ...events])

    expect(verdict.violations.map((violation) => violation.invariant)).toEqual([invariant])
  })

  test.each(GOOD)('finds nothing in: %s', (_, events) => {
    const verdict = checkHistory([...begun, ...events])

    expect(verdict.violations).toEqual([])
  })

  test('counts what flow control had to do', () => {
    const { counts } = checkHistory([
      ...[...begun, groups({ concurrency: 1 }), limit({ concurrency: 3 }), ...pair],
      ...[...ran('a', 10, 20), ...ran('b', 20, 30), ...stored('c', 3), ...ran('c', 40, 50)],
    ])

    expect(counts.flow).toMatchObject({ jobs: 3, starts: 3, groups: 1, changes: 2, filled: 2, repaired: 0 })
  })
})
