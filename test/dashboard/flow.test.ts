import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Limit, QueueFlow } from '../../dashboard/src/api/types.js'
import { groupApiPath } from '../../dashboard/src/links.js'
import { boundsDraft, boundsOf, boundsProblems } from '../../dashboard/src/views/flow/bounds.js'
import { type Rate, rateWords, readRate, writeRate } from '../../dashboard/src/views/flow/rates.js'
import { spansOf } from '../../dashboard/src/views/limits/breaker-spans.js'
import { bodyOf, draftOf, problemsOf } from '../../dashboard/src/views/limits/limit-draft.js'
import { flowBody, flowDraft, flowProblems } from '../../dashboard/src/views/queues/flow-draft.js'
import { resolveLimit, resolveQueueFlow } from '../../src/core/flow/resolve.js'
import { NO_QUEUE_FLOW } from '../../src/core/flow/settings.js'

const rates = fc.record({
  limit: fc.integer({ min: 1, max: 1_000_000_000 }),
  perMs: fc.integer({ min: 1, max: 86_400_000 }),
  burst: fc.integer({ min: 1, max: 1_000_000_000 }),
  counts: fc.constantFrom('starts' as const, 'cost' as const),
})

function limitOf(changes: Partial<Limit> = {}): Limit {
  const nothing = {
    concurrency: null,
    rate: null,
    adaptive: null,
    breaker: null,
    level: null,
    tokens: null,
    until: null,
  }
  return { name: 'stripe', origin: 'operator', running: 0, ...nothing, ...changes }
}

/** The request without what is null, as the server reads it. */
function given(body: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(body).filter(([, value]) => value !== null))
}

describe('rates', () => {
  test('are said in few words', () => {
    const rate: Rate = { limit: 100, perMs: 1_000, burst: 100, counts: 'starts' }

    expect(rateWords(rate)).toBe('100/s')
    expect(rateWords({ ...rate, limit: 1_000, perMs: 30_000, burst: 50 })).toBe('1,000 per 30s, burst 50')
    expect(rateWords({ ...rate, perMs: 60_000, counts: 'cost' })).toBe('100 cost/m')
  })

  test('are read back as they were written', () => {
    fc.assert(
      fc.property(rates, ({ limit, perMs }) => {
        expect(readRate(writeRate({ limit, perMs }))).toEqual({ limit, perMs })
      }),
    )
  })

  test.each(['', '100', '/s', '0/s', '-1/s', '1.5/s', '100/x', '100/0s', '100 a second'])('%j is none', (text) => {
    expect(readRate(text)).toBeNull()
  })
})

describe('the form of a limit', () => {
  test('sends back what it was opened with', () => {
    const settings = fc.record({
      failures: fc.integer({ min: 1, max: 100 }),
      of: fc.integer({ min: 1, max: 1_000_000 }),
      most: fc.constantFrom({}, { cooldownMaxMs: 20_000 }),
    })
    fc.assert(
      fc.property(fc.option(rates), fc.option(settings), fc.boolean(), (rate, judged, isAdaptive) => {
        const usual = { withinMs: 30_000, cooldownMs: 15_000, probes: 3 }
        const breaker =
          judged === null ? null : { failures: judged.failures / 100, of: judged.of, ...usual, ...judged.most }
        const shown = {
          position: 'closed',
          since: '',
          probeAt: null,
          opens: 0,
          forced: null,
          ok: 0,
          failed: 0,
        } as const
        const limit = limitOf({
          rate,
          ...(isAdaptive ? { adaptive: { min: 2, max: 9 } } : { concurrency: 7 }),
          breaker: breaker === null ? null : { ...shown, settings: breaker, history: [] },
        })

        const draft = draftOf(limit)

        expect(Object.values(problemsOf(draft)).filter((problem) => problem !== null)).toEqual([])
        expect(resolveLimit('stripe', given(bodyOf(draft)))).toEqual({
          concurrency: limit.concurrency,
          adaptive: limit.adaptive,
          rate,
          breaker,
        })
      }),
    )
  })

  test.each([
    ['name', { name: '' }],
    ['name', { name: 'no blanks' }],
    ['name', { name: 'queue:mail' }],
    ['concurrency', { concurrency: '0' }],
    ['concurrency', { concurrency: '100001' }],
    ['rate', { rate: 'fast' }],
    ['burst', { burst: '5' }],
    ['min', { isAdaptive: true, min: '', max: '4' }],
    ['max', { isAdaptive: true, min: '5', max: '4' }],
    ['failures', { hasBreaker: true, failures: '0' }],
    ['failures', { hasBreaker: true, failures: '101' }],
    ['within', { hasBreaker: true, within: '10ms' }],
    ['cooldown', { hasBreaker: true, cooldown: '2h' }],
    ['cooldownMax', { hasBreaker: true, cooldown: '10s', cooldownMax: '5s' }],
    ['probes', { hasBreaker: true, probes: '' }],
  ] as const)('names a mistake in %s: %j', (field, changes) => {
    const problems = problemsOf({ ...draftOf(limitOf()), ...changes })

    expect(problems[field]).not.toBeNull()
    expect(Object.values(problems).filter((problem) => problem !== null)).toHaveLength(1)
  })
})

describe('the form of a queue', () => {
  test('sends back what it was opened with', () => {
    const groups = fc.oneof(
      fc.record({
        ordered: fc.constant(true),
        onRetry: fc.constantFrom('wait', 'pass'),
        onDead: fc.constantFrom('continue', 'stop'),
      }),
      fc.record({ ordered: fc.constant(false), concurrency: fc.option(fc.integer({ min: 1, max: 100_000 })) }),
    )
    fc.assert(
      fc.property(fc.option(rates), groups, fc.option(fc.integer({ min: 1, max: 100_000_000 })), (rate, own, depth) => {
        const flow = {
          ...{ ...NO_QUEUE_FLOW, rate, maxDepth: depth, onFull: 'wait', agingMs: 60_000 },
          groups: { ...NO_QUEUE_FLOW.groups, ...own, maxDepth: depth },
        } as QueueFlow
        const draft = flowDraft(flow)

        const body = flowBody(draft, { limits: { maxAttempts: 4 } })

        expect(flowProblems(draft).areNone).toBe(true)
        const { maxAttempts, groups: sent, ...rest } = given(body)
        expect(maxAttempts).toBe(4)
        const options = sent === undefined ? rest : { ...rest, groups: given(sent as Record<string, unknown>) }
        expect(resolveQueueFlow(options)).toEqual(flow)
      }),
    )
  })

  test('of a queue without flow control asks for none', () => {
    const body = flowBody(flowDraft(undefined), { limits: {} })

    expect(given(body)).toEqual({})
    expect(Object.keys(body).sort()).toEqual(['aging', 'concurrency', 'groups', 'maxDepth', 'onFull', 'rate'])
  })

  test('names mistakes, also those of groups', () => {
    const draft = flowDraft(undefined)
    const isSound = (changes: Partial<typeof draft>) => flowProblems({ ...draft, ...changes }).areNone

    expect(isSound({})).toBe(true)
    expect(isSound({ maxDepth: '-1' })).toBe(false)
    expect(isSound({ aging: 'soon' })).toBe(false)
    expect(isSound({ groups: { ...draft.groups, rate: 'fast' } })).toBe(false)
    // Of ordered groups the concurrency is not asked for.
    expect(isSound({ ordered: true, groups: { ...draft.groups, concurrency: '5000000' } })).toBe(true)
  })
})

test('bounds of a group are null where the queue decides', () => {
  const draft = boundsDraft({ concurrency: null, rate: null })

  expect(boundsOf(draft)).toEqual({ concurrency: null, rate: null })
  expect(boundsProblems({ ...draft, burst: '3' }).burst).toBe('a burst needs a rate')
})

test('a group of any name has a path that no address parser changes', () => {
  fc.assert(
    fc.property(fc.oneof(fc.string({ minLength: 1 }), fc.constantFrom('.', '..', '%2e', 'a/../b')), (group) => {
      const url = new URL(`http://localhost/${groupApiPath('orders', group, 'pause')}`)
      const [, , , , , part, verb] = url.pathname.split('/')

      expect(verb).toBe('pause')
      expect(url.searchParams.get('group') ?? decodeURIComponent(part!)).toBe(group)
    }),
  )
})

test('the spans of a breaker go from the oldest move to now', () => {
  const nowMs = Date.parse('2026-01-01T00:10:00Z')
  const move = (at: string, to: 'open' | 'closed') => ({ at, to, from: 'closed', ok: 0, failed: 0, by: null }) as const

  const spans = spansOf([move('2026-01-01T00:09:00Z', 'closed'), move('2026-01-01T00:05:00Z', 'open')], nowMs)

  expect(spans.map(({ words }) => words)).toEqual(['open for 4m', 'closed for 1m'])
  expect(spans[0]!.share / spans[1]!.share).toBeCloseTo(2)
})
