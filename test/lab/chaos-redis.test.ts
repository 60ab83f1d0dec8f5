import { describe, expect, test } from 'vitest'
import { planFaults } from '../../lab/chaos/plan.js'
import { plantedLua } from '../../lab/chaos/plants.js'
import { ask } from '../../lab/chaos/redis/ask.js'
import { ShardReader, type WitnessEntry } from '../../lab/chaos/redis/collect.js'
import { REDIS_WIRE } from '../../lab/chaos/redis/wire.js'
import { watchedLibrary } from '../../lab/chaos/redis/witness.js'
import { FORMS } from '../../lab/chaos/settings.js'
import { within } from '../../lab/chaos/within.js'
import { checkHistory } from '../../lab/history/check.js'
import type { HistoryEvent } from '../../lab/history/events.js'
import { longId, shortId } from '../../src/stores/redis/ids.js'
import { openRedis } from '../support/redis.js'

const JOB = '01a1f56b-f1b1-7393-8c93-13c44b13394c'
const ID = shortId(JOB)
const FACTS = `1000 fast gen 0 - - - \t\n{"key":"a","effect":"none"}`

type Changes = WitnessEntry['changes']

const readerOf = (durability: 'default' | 'replicated') =>
  new ShardReader({ durability, spans: [{ kind: 'fail over', from: 0, to: 9_000 }] })
const entry = (at: number, changes: Changes, server = '1 x'): WitnessEntry => ({ shard: 0, server, at, changes })
const facts: Changes[number] = ['f', '{hf:0}:f:', 'HSET', ID, FACTS]
const standing = (text: string): Changes[number] => ['s', '{hf:0}:s:', 'HSET', ID, text]
const lease = (until: number): Changes[number] => ['l', '{hf:0}:leases', 'ZADD', String(until), ID]

describe('the plan of faults on Redis', () => {
  test.each([
    ['redis', 20_000, 100, 20],
    ['redis-cluster', 20_000, 100, 20],
    ['redis-long', 200_000, 300, 20],
  ] as const)('has in the form %s at least %i jobs, %i faults and %i kinds', (form, jobs, faults, kinds) => {
    const settings = FORMS[form]
    const plan = planFaults({ ...settings, seed: 1 })

    expect(settings.jobs * settings.rounds).toBeGreaterThanOrEqual(jobs)
    expect(plan.length * settings.rounds).toBeGreaterThanOrEqual(faults)
    expect(new Set(plan.map(({ kind }) => kind)).size).toBeGreaterThanOrEqual(kinds)
    expect(settings.durability).toBe('replicated')
  })

  test('breaks the links of those workers only that have one', () => {
    const plan = planFaults({ ...FORMS.redis, seed: 3 })

    const onLinks = plan.filter(
      ({ kind }) => kind.startsWith('cut') || kind.endsWith('link') || kind.startsWith('lose answer'),
    )
    expect(onLinks.length).toBeGreaterThan(20)
    expect(onLinks.filter(({ target }) => target === 'worker-1')).toEqual([])
  })
})

describe('a wait in a run', () => {
  test('ends, and names what did not come', async () => {
    await expect(within('the end', 20, new Promise(() => {}))).rejects.toThrow('not within 20 ms: the end')
    expect(await within('the answer', 60_000, Promise.resolve(1))).toBe(1)
  })

  test('for a server ends too: one that stands still, and one that has ended', async () => {
    const server = await openRedis()
    server.signal('SIGSTOP')
    await expect(ask(server, ['PING'], 200)).rejects.toThrow('200 ms')
    server.signal('SIGCONT')
    await server.kill()

    await server.kill()
    await server.stop()
    await expect(ask(server, ['PING'], 200)).rejects.toThrow('ECONNREFUSED')
    await server.close()
  })
})

describe('what the functions wrote', () => {
  test('is one step for the changes of one call to one job', () => {
    const reader = readerOf('default')
    const steps = (at: number, ...changes: Changes) => [...reader.read(entry(at, changes))].map((event) => event.ev)

    expect(steps(1_000, facts)).toEqual(['stored'])
    expect(steps(1_010, standing('R1010 1 0 - 0 - - w'), lease(3_010))).toEqual(['claimed'])
    expect(steps(1_020, lease(3_020))).toEqual(['extended'])
    expect(steps(1_030, standing('R1010 1 0 b 0 - - w'))).toEqual([])
    expect(steps(1_040, standing('R1010 1 0 bc 0 - - w'))).toEqual(['operated'])
    expect(steps(1_050, standing('T1010 1 0 a 500 - - '))).toEqual(['settled'])
    expect(steps(1_600, standing('Q1010 1 0 a 590 - - '))).toEqual(['promoted'])
    // Moved to another chunk.
    expect(steps(1_700, standing('Q1010 1 0 a 590 - - '), ['s', '{hf:0}:s:', 'HDEL', ID])).toEqual([])
  })

  test('has what ended before what went on because of it, though both had waited', () => {
    const reader = readerOf('default')
    const child = shortId('01a1f56b-f1b1-7393-8c93-13c44b13394d')
    const of = (id: string, letter: string): Changes[number] => [
      's',
      '{hf:0}:s:',
      'HSET',
      id,
      `${letter}0 0 0 - 0 - - `,
    ]
    const stored = (id: string): Changes[number] => ['f', '{hf:0}:f:', 'HSET', id, FACTS]
    for (const id of [ID, child]) for (const _ of reader.read(entry(1_000, [stored(id), of(id, 'B')])));

    const steps = [...reader.read(entry(2_000, [of(child, 'Q'), of(ID, 'C')]))]

    expect(steps).toMatchObject([
      { ev: 'operated', job: JOB, to: 'cancelled' },
      { ev: 'promoted', to: 'ready' },
    ])
  })

  test('shows a rescue by the fence that moved on', () => {
    const settled = (fence: number) => {
      const reader = readerOf('default')
      for (const _ of reader.read(entry(1_000, [facts, standing('R1000 1 0 - 0 - - w'), lease(3_000)])));
      return [...reader.read(entry(4_000, [standing(`Q${fence} 1 1 - 3000 - - `)]))][0]
    }

    expect(settled(1_001)).toMatchObject({ ev: 'settled', fence: 1_000, rescued: true, to: 'ready' })
    expect(settled(1_000)).toMatchObject({ ev: 'settled', fence: 1_000, rescued: false })
  })

  test.each([
    ['replicated', 'claims'],
    ['default', 'all'],
  ] as const)('says what a takeover may have undone at durability %s: %s', (durability, what) => {
    const reader = readerOf(durability)
    const kinds = (each: WitnessEntry) => [...reader.read(each)].filter(({ ev }) => ev === 'undone')

    expect(kinds(entry(1_000, [facts], '1 x'))).toEqual([])
    // The same server after a restart has what it had.
    expect(kinds(entry(2_000, [standing('C0 0 0 - 2000 - - ')], '1 y'))).toEqual([])
    expect(kinds(entry(5_000, [standing('C0 0 0 - 2000 - - ')], '2 z'))).toMatchObject([
      { from: 2_000, to: 9_000, what },
    ])
  })

  test('is watched by lines before the library, and a mistake replaces lines in it', () => {
    const planted = watchedLibrary(plantedLua('redis: settle without fence'))

    expect(planted.startsWith('#!lua name=holdfast_')).toBe(true)
    expect(watchedLibrary([])).toContain('job.fence ~= settled.fence')
    expect(planted).not.toContain('job.fence ~= settled.fence')
    expect(() => watchedLibrary([{ find: 'no such line', by: '' }])).toThrow(/no such line/)
  })
})

describe('a takeover in a history', () => {
  const own = (ev: 'enqueue.invoke' | 'enqueue.ok', wall: number) => {
    return { ev, process: 'p', processRun: 1, mono: wall, wall, key: 'a' } as const
  }
  const checked = (wall: number, undone: 'claims' | 'all' | null) => {
    const events: HistoryEvent[] = [
      { ...own('enqueue.invoke', wall), ev: 'enqueue.invoke', idempotencyKey: null },
      { ...own('enqueue.ok', wall + 1), ev: 'enqueue.ok', job: JOB, created: true },
      ...(undone === null
        ? []
        : [
            {
              ev: 'undone',
              order: 1,
              at: 3_000,
              from: 2_000,
              to: 2_500,
              what: undone,
              fault: 'replication cut',
            } as const,
          ]),
    ]
    return checkHistory(events)
  }
  const lost = (...of: Parameters<typeof checked>) => checked(...of).violations.map(({ invariant }) => invariant)

  test('that lost jobs is counted with the fault that made it', () => {
    expect(checked(2_100, 'all').counts).toMatchObject({
      acceptedUndone: 1,
      acceptedUndoneBy: { 'replication cut': 1 },
    })
    expect(checked(1_900, 'all').counts.acceptedUndoneBy).toEqual({})
  })

  test('excuses the loss of what was accepted in its window alone, and only where the store promises no more', () => {
    expect(lost(2_100, 'all')).toEqual([])
    expect(lost(1_900, 'all')).toEqual(['I1'])
    expect(lost(2_600, 'all')).toEqual(['I1'])
    expect(lost(2_100, 'claims')).toEqual(['I1'])
    expect(lost(2_100, null)).toEqual(['I1'])
  })

  test('excuses the effect of a job that was undone, though the takeover became known later', () => {
    const found = (fence: number) => {
      return checkHistory([
        { ev: 'effect', order: 2_200, at: 2_200, inTransaction: false, job: JOB, fence, attempt: 1 },
        { ev: 'undone', order: 3_000, at: 3_000, from: 2_000, to: 2_500, what: 'claims', fault: null },
      ]).violations.map(({ invariant }) => invariant)
    }

    expect(found(2_100)).toEqual([])
    expect(found(1_900)).toContain('I2')
  })

  test('excuses a handler whose claim was undone, and no other', () => {
    const started = (fence: number) => {
      const stored = { ev: 'stored', order: 0, at: 1_000, job: JOB, queue: 'q', type: 't', state: 'ready' } as const
      const rest = {
        priority: 0,
        runAt: null,
        maxAttempts: 3,
        maxCrashes: 3,
        key: 'a',
        idempotencyKey: null,
        after: [],
      }
      const { verdict, counts } = ((events: HistoryEvent[]) => {
        const found = checkHistory(events)
        return { verdict: found.violations.map(({ invariant }) => invariant), counts: found.counts }
      })([
        { ...stored, ...rest, tick: null },
        { ev: 'undone', order: 1, at: 3_000, from: 2_000, to: 2_500, what: 'claims', fault: null },
        { ev: 'started', process: 'w', processRun: 1, mono: 1, job: JOB, fence, attempt: 1 },
      ])
      return [verdict.includes('I4'), counts.claimsUndone]
    }

    expect(started(2_100)).toEqual([false, 1])
    expect(started(2_600)).toEqual([true, 0])
  })
})

describe('the link to Redis', () => {
  test('tells functions by their name, and counts answers of any kind, however they are cut', () => {
    const requests: string[] = []
    let answers = 0
    const read = REDIS_WIRE.requests(({ type, text }) => requests.push(`${type} ${text}`))
    const count = REDIS_WIRE.answers(() => answers++)
    const sent = '*3\r\n$5\r\nFCALL\r\n$17\r\nhf1_92d544bb_claim\r\n$1\r\n1\r\n*1\r\n$4\r\nPING\r\n'.replace(
      '$17',
      '$18',
    )
    const got = '*2\r\n*1\r\n$2\r\nab\r\n:1\r\n+PONG\r\n-ERR no\r\n$-1\r\n*0\r\n'

    for (const byte of Buffer.from(sent)) read(Buffer.from([byte]))
    for (const byte of Buffer.from(got)) count(Buffer.from([byte]))
    expect(requests).toEqual(['F claim', 'C PING'])
    expect(answers).toBe(5)
    expect(longId(ID)).toBe(JOB)
  })
})
