import { describe, expect, test } from 'vitest'
import { parseFilter } from '../../src/core/filter.js'
import { isLikeOne, type MatchedJob, matches, narrowQueues } from '../../src/core/filter-match.js'
import { fingerprint } from '../../src/core/fingerprint.js'

const NOW_MS = Date.UTC(2026, 10, 1, 12)
const ERROR = { name: 'TimeoutError', message: 'No answer' }

const job: MatchedJob = {
  id: '019ca945-0a09-7878-92ce-4430c91506ae',
  queue: 'mail_eu',
  type: 'send_email',
  state: 'dead',
  tags: ['eu', 'vip'],
  reason: 'attempts',
  worker: 'mail-1:7:ab',
  idempotencyKey: 'welcome:42',
  schedule: { name: 'nightly', tick: new Date(NOW_MS) },
  error: ERROR,
  payload: { user: { id: 42, roles: ['admin', null] }, constructor: 1 },
  attempt: 3,
  priority: -5,
  createdAt: new Date(NOW_MS - 3_600_000),
  finishedAt: new Date(NOW_MS - 60_000),
}

describe('matches', () => {
  test.each([
    '',
    'state:ready,dead -state:ready queue:mail_* -queue:push type:*email -type:sweep',
    'tag:eu,us tag:vip -tag:test reason:attempts worker:mail-* key:welcome:42 schedule:nightly',
    `id:${job.id} fingerprint:${fingerprint(ERROR)}`,
    'error:TIMEOUT error:"no ANSWER"',
    'payload.user.id:41,42 payload.user.roles.0:admin payload.user.roles.1:null payload.user.roles:*',
    'attempt:>2 attempt:<=3 attempt:1,3 priority:<0 priority:>=-5',
    'created:>59m created:<=1h finished:<2m created:<2026-11-01T12:00Z finished:>2026-11-01T11:58Z',
  ])('%s', (text) => {
    expect(matches(parseFilter(text), job, NOW_MS)).toBe(true)
  })

  test.each([
    ...['state:ready', '-state:dead', 'queue:mail', 'queue:*_us', '-queue:mail_*', 'type:send', '-type:send*'],
    ...['tag:us', 'tag:eu tag:us', '-tag:vip', 'reason:crashed', 'worker:push-*', 'key:other', 'schedule:daily'],
    ...['fingerprint:00', 'error:refused', 'error:no error:yes', 'payload.user.id:"42"', 'payload.user.name:*'],
    ...['payload.user.roles.2:*', 'payload.user.roles.x:*', 'payload.user.id.x:*', 'payload.toString:*'],
    ...['attempt:>3', 'attempt:1,2', 'attempt:>2 attempt:<3', 'priority:0', 'created:<1h', 'created:>1h'],
    ...['finished:>2m', 'created:>2026-11-01T11:00Z', 'id:019ca945-0a09-7878-92ce-000000000000'],
  ])('not %s', (text) => {
    expect(matches(parseFilter(text), job, NOW_MS)).toBe(false)
  })

  test('what a job has not cannot match', () => {
    const bare = { ...job, state: 'ready', reason: null, worker: null, idempotencyKey: null, schedule: null } as const
    const fresh = { ...bare, error: null, finishedAt: null }

    for (const text of ['reason:attempts', 'worker:*', 'key:a', 'schedule:a', 'error:a', 'finished:>0ms']) {
      expect(matches(parseFilter(text), fresh, NOW_MS)).toBe(false)
    }
    expect(matches({ fingerprints: [fingerprint(ERROR)] }, { ...job, state: 'retrying' }, NOW_MS)).toBe(false)
  })

  test('an empty list matches nothing', () => {
    expect(matches({ queues: [] }, job, NOW_MS)).toBe(false)
    expect(matches({ states: [] }, job, NOW_MS)).toBe(false)
  })
})

describe('isLikeOne', () => {
  test.each([
    ['*', '', true],
    ['a', 'a', true],
    ['a', 'ab', false],
    ['a*', 'a', true],
    ['*a', 'ba', true],
    ['a*a', 'a', false],
    ['a*a', 'aa', true],
    ['a*b*c', 'a-b-c', true],
    ['a*b*c', 'a-c-b', false],
    ['*b*', 'abc', true],
    ['a**c', 'abc', true],
    ['a.c', 'abc', false],
  ])('%s and %s: %s', (pattern, text, isLike) => {
    expect(isLikeOne(pattern, text)).toBe(isLike)
  })
})

describe('narrowQueues', () => {
  test('a filter without queues gets those that may be seen', () => {
    expect(narrowQueues({ states: ['dead'] }, ['a', 'b'])).toEqual({ states: ['dead'], queues: ['a', 'b'] })
  })

  test('a filter with queues keeps those of them that may be seen', () => {
    expect(narrowQueues(parseFilter('queue:mail_*,push'), ['mail_eu', 'image']).queues).toEqual(['mail_eu'])
    expect(narrowQueues(parseFilter('queue:push'), ['mail_eu']).queues).toEqual([])
  })
})
