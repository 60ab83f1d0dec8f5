// The memory of a store is bounded by time, bytes and number, and keeps references.

import { describe, expect, test } from 'vitest'
import { UnansweredJobs } from '../../src/stores/postgres/enqueue-unanswered.js'
import { FailoverMemory } from '../../src/stores/postgres/failover-memory.js'
import { resolveMemory } from '../../src/stores/postgres/failover-options.js'
import { newJob, newJobs, succeeded } from '../../src/testing/store-suite/samples.js'
import { claimed } from './failover-samples.js'

const BOUNDS = { ms: 60_000, bytes: 1_000_000, jobs: 1_000 }
const created = (jobs: readonly { id: string }[]) =>
  jobs.map(({ id }) => ({ id, created: true, state: 'ready' as const }))

describe('the memory for a failover', () => {
  test('keeps the very jobs it was given', () => {
    const memory = new FailoverMemory(BOUNDS)
    const jobs = newJobs(3)

    memory.enqueued(jobs, created(jobs))

    expect(memory.read().enqueued).toHaveLength(3)
    expect(memory.read().enqueued[0]).toBe(jobs[0])
    memory.close()
  })

  test('keeps no job that was not written', () => {
    const memory = new FailoverMemory(BOUNDS)
    const [written, taken, orphan] = newJobs(3)

    memory.enqueued(
      [written!, taken!, orphan!],
      [
        ...created([written!]),
        { id: 'another', created: false, state: 'ready' },
        { id: orphan!.id, unknownParent: 'none' },
      ],
    )

    expect(memory.read().enqueued).toEqual([written])
    memory.close()
  })

  test('forgets what is too old, and the oldest of what is too much', () => {
    let nowMs = 0
    const memory = new FailoverMemory({ ms: 1_000, bytes: 100_000, jobs: 10 }, () => nowMs)
    const add = (count: number, payload = '{}') => {
      const jobs = newJobs(count, { payload })
      memory.enqueued(jobs, created(jobs))
      return jobs
    }
    add(2)
    nowMs = 500
    const second = add(3)
    nowMs = 1_400
    expect(memory.read().enqueued).toEqual(second)

    const third = add(9)
    expect(memory.read().enqueued).toEqual(third)

    add(1, JSON.stringify('x'.repeat(99_900)))
    expect(memory.size.jobs).toBe(0)
    expect(memory.size.bytes).toBe(0)
    memory.close()
  })

  test('knows a lease by its claim and its settlement, and of several only the newest', () => {
    const memory = new FailoverMemory(BOUNDS)
    const job = newJob()
    const [first, second] = [claimed(job, 1), claimed(job, 2)]
    const end = succeeded(second)

    memory.claimed([first], { worker: 'a', leaseMs: 1 })
    memory.claimed([second], { worker: 'a', leaseMs: 1 })
    memory.settled([end], [{ id: job.id, fence: 2, queue: job.queue, result: 'settled', state: 'succeeded' }])
    memory.settled([succeeded(first)], [{ id: job.id, fence: 1, queue: job.queue, result: 'lost', state: null }])

    const { leases } = memory.read()
    expect(leases).toHaveLength(1)
    expect(leases[0]).toMatchObject({ id: job.id, fence: 2, claim: { fence: 2, worker: 'a' } })
    expect(leases[0]!.settled).toBe(end)
    expect(leases[0]!.claim).not.toHaveProperty('payload')
    memory.close()
  })

  test.each([
    ['no object', 7, /must be true, false or such as/],
    ['an unknown name', { seconds: 3 }, /seconds/],
    ['too short a time', { time: '10ms' }, /failoverMemory.time must be between/],
    ['too few bytes', { bytesMax: 1 }, /failoverMemory.bytesMax/],
    ['a number of jobs that is none', { jobsMax: 1.5 }, /failoverMemory.jobsMax/],
  ])('an option that is %s is refused', (_, option, message) => {
    expect(() => resolveMemory(option as never)).toThrow(message)
  })
})

describe('jobs whose enqueue had no answer', () => {
  test('are known by their ids until the server has answered', () => {
    const unanswered = new UnansweredJobs(BOUNDS)
    const [sent, other] = newJobs(2)

    unanswered.add([sent!])

    expect(unanswered.hasAny([other!])).toBe(false)
    expect(unanswered.hasAny([other!, { ...sent! }])).toBe(true)
    unanswered.answered([{ ...sent! }])
    expect(unanswered.hasAny([sent!])).toBe(false)
  })

  test('are forgotten when they were last tried long ago, and the oldest of too many', () => {
    let nowMs = 0
    const unanswered = new UnansweredJobs({ ms: 1_000, jobs: 3 }, () => nowMs)
    const [given, ...others] = newJobs(5)
    unanswered.add([given!, others[0]!])
    nowMs = 50_000
    unanswered.add([given!])
    // A minute at least, because one try may take longer than a second.
    nowMs = 70_000
    unanswered.add([others[1]!])
    expect([given!, ...others].map((job) => unanswered.hasAny([job]))).toEqual([true, false, true, false, false])

    unanswered.add(others.slice(1))
    expect([given!, ...others].map((job) => unanswered.hasAny([job]))).toEqual([false, false, true, true, true])
  })
})
