import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type DecidedJob, decide, decideBeforeRun, type Outcome } from '../../src/core/decide.js'
import { CRASHES_MAX, resolveLimits } from '../../src/core/limits.js'

const NOW = 1_000_000
const half = () => 0.5

function jobWith(changes: Partial<DecidedJob> = {}): DecidedJob {
  return { attempt: 2, crashes: 0, createdAtMs: NOW - 1_000, limits: resolveLimits({ maxAttempts: 3 }), ...changes }
}

describe('decide', () => {
  test('a job that succeeded or was cancelled ends so, with its counts', () => {
    const job = jobWith({ crashes: 1 })

    expect(decide(job, { kind: 'succeeded' }, NOW, half)).toEqual({ state: 'succeeded', attempt: 2, crashes: 1 })
    expect(decide(job, { kind: 'cancelled' }, NOW, half)).toEqual({ state: 'cancelled', attempt: 2, crashes: 1 })
  })

  test('a release gives the attempt back', () => {
    const settlement = decide(jobWith(), { kind: 'released', delayMs: 0 }, NOW, half)

    expect(settlement).toEqual({ state: 'ready', attempt: 1, crashes: 0 })
  })

  test('a release with a delay gives the attempt back and waits', () => {
    const settlement = decide(jobWith(), { kind: 'released', delayMs: 500 }, NOW, half)

    expect(settlement).toEqual({ state: 'scheduled', attempt: 1, crashes: 0, delayMs: 500 })
  })

  test('a snooze gives the attempt back, even the last one', () => {
    const settlement = decide(jobWith({ attempt: 3 }), { kind: 'snoozed', delayMs: 0 }, NOW, half)

    expect(settlement).toEqual({ state: 'scheduled', attempt: 2, crashes: 0, delayMs: 0 })
  })

  test.each(['dropped', 'invalid'] as const)('what is %s is dead immediately, whatever attempts are left', (kind) => {
    expect(decide(jobWith(), { kind }, NOW, half)).toEqual({ state: 'dead', attempt: 2, crashes: 0, reason: kind })
  })

  test('a failure is retried after the backoff of its attempt', () => {
    const settlement = decide(jobWith(), { kind: 'failed', retryable: true, delayMs: null }, NOW, half)

    expect(settlement).toEqual({ state: 'retrying', attempt: 2, crashes: 0, delayMs: 1_000 })
  })

  test('a failure that chose its delay waits so long, without jitter', () => {
    const settlement = decide(jobWith(), { kind: 'failed', retryable: true, delayMs: 90_000 }, NOW, half)

    expect(settlement).toMatchObject({ state: 'retrying', delayMs: 90_000 })
  })

  test('a failure that chose no delay at all runs again immediately', () => {
    const settlement = decide(jobWith(), { kind: 'failed', retryable: true, delayMs: 0 }, NOW, half)

    expect(settlement).toMatchObject({ state: 'retrying', delayMs: 0 })
  })

  test('the last attempt that fails leaves the job dead', () => {
    const settlement = decide(jobWith({ attempt: 3 }), { kind: 'failed', retryable: true, delayMs: null }, NOW, half)

    expect(settlement).toEqual({ state: 'dead', attempt: 3, crashes: 0, reason: 'attempts' })
  })

  test('a failure that is not worth a retry leaves the job dead', () => {
    const settlement = decide(jobWith(), { kind: 'failed', retryable: false, delayMs: null }, NOW, half)

    expect(settlement).toEqual({ state: 'dead', attempt: 2, crashes: 0, reason: 'dropped' })
  })

  test('a job past its age is not retried', () => {
    const limits = resolveLimits({ maxAgeMs: 1_000 })
    const failed: Outcome = { kind: 'failed', retryable: true, delayMs: null }

    expect(decide(jobWith({ limits }), failed, NOW, half)).toMatchObject({ state: 'retrying' })
    expect(decide(jobWith({ limits }), failed, NOW + 1, half)).toMatchObject({ state: 'dead', reason: 'expired' })
  })

  test('the first crash counts, and the job goes on immediately', () => {
    const settlement = decide(jobWith(), { kind: 'crashed', started: true }, NOW, half)

    expect(settlement).toEqual({ state: 'ready', attempt: 2, crashes: 1 })
  })

  test('a later crash counts, and the job waits like after any failure', () => {
    const settlement = decide(jobWith({ crashes: 1 }), { kind: 'crashed', started: true }, NOW, half)

    expect(settlement).toEqual({ state: 'retrying', attempt: 2, crashes: 2, delayMs: 1_000 })
  })

  test('the third crash leaves the job dead', () => {
    const settlement = decide(jobWith({ crashes: CRASHES_MAX - 1 }), { kind: 'crashed', started: true }, NOW, half)

    expect(settlement).toEqual({ state: 'dead', attempt: 2, crashes: CRASHES_MAX, reason: 'crashed' })
  })

  test('a crash in the last attempt leaves the job dead for want of attempts', () => {
    const settlement = decide(jobWith({ attempt: 3 }), { kind: 'crashed', started: true }, NOW, half)

    expect(settlement).toEqual({ state: 'dead', attempt: 3, crashes: 1, reason: 'attempts' })
  })

  test('a job whose handler never started is not blamed for the crash', () => {
    const settlement = decide(jobWith({ crashes: 2 }), { kind: 'crashed', started: false }, NOW, half)

    expect(settlement).toEqual({ state: 'ready', attempt: 1, crashes: 2 })
  })

  test('every decision is a move a running job can make, and no count goes below zero', () => {
    fc.assert(
      fc.property(
        anyJob,
        anyOutcome,
        fc.integer({ min: NOW, max: NOW * 2 }),
        fc.nat(999),
        (job, outcome, now, chance) => {
          const settlement = decide(job, outcome, now, () => chance / 1_000)

          expect(settlement.state).not.toBe('running')
          expect(settlement.state).not.toBe('blocked')
          expect(settlement.attempt).toBeGreaterThanOrEqual(job.attempt - 1)
          expect(settlement.attempt).toBeLessThanOrEqual(job.attempt)
          expect(settlement.crashes).toBeGreaterThanOrEqual(job.crashes)
          if (settlement.state === 'retrying') expect(job.attempt).toBeLessThan(job.limits.maxAttempts)
          if ('delayMs' in settlement) expect(settlement.delayMs).toBeGreaterThanOrEqual(0)
        },
      ),
    )
  })
})

describe('decideBeforeRun', () => {
  test('a job within its bounds may run', () => {
    expect(decideBeforeRun(jobWith({ attempt: 3 }), NOW)).toBeNull()
  })

  test('a job past its age is dead, and the attempt it was claimed for does not count', () => {
    const job = jobWith({ attempt: 1, limits: resolveLimits({ maxAgeMs: 999 }) })

    expect(decideBeforeRun(job, NOW)).toEqual({ state: 'dead', attempt: 0, crashes: 0, reason: 'expired' })
  })

  test('a job past a limit that was lowered is dead', () => {
    const settlement = decideBeforeRun(jobWith({ attempt: 4, crashes: 1 }), NOW)

    expect(settlement).toEqual({ state: 'dead', attempt: 3, crashes: 1, reason: 'attempts' })
  })
})

const anyJob: fc.Arbitrary<DecidedJob> = fc.record({
  attempt: fc.integer({ min: 1, max: 30 }),
  crashes: fc.nat(CRASHES_MAX - 1),
  createdAtMs: fc.nat(NOW),
  limits: fc
    .record({ maxAttempts: fc.integer({ min: 1, max: 30 }), maxAgeMs: fc.option(fc.nat(NOW)) })
    .map((limits) => resolveLimits(limits)),
})

const delayMs = fc.nat(100_000)
const anyOutcome: fc.Arbitrary<Outcome> = fc.oneof(
  fc.record({ kind: fc.constantFrom('succeeded', 'cancelled', 'dropped', 'invalid') }),
  fc.record({ kind: fc.constant('failed'), retryable: fc.boolean(), delayMs: fc.option(delayMs) }),
  fc.record({ kind: fc.constantFrom('released', 'snoozed'), delayMs }),
  fc.record({ kind: fc.constant('crashed'), started: fc.boolean() }),
)
