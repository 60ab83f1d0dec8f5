import { describe, expect, test } from 'vitest'
import { jobPath, jobsPath, queuePath, readSegment, webAddress, withQuery } from '../../dashboard/src/links.js'
import { mountPathOf } from '../../dashboard/src/mount.js'

describe('where the dashboard is mounted', () => {
  test.each([
    ['/', ''],
    ['/ops/holdfast/', '/ops/holdfast'],
    ['/ops/index.html', '/ops'],
    ['https://queue.example.com/ops/', '/ops'],
  ])('base %s means %j', (href, path) => {
    expect(mountPathOf(href, 'https://queue.example.com/ops/jobs/42')).toBe(path)
  })

  test('no base, a broken one and one of another origin mean the root', () => {
    expect(mountPathOf(null, 'https://queue.example.com/jobs')).toBe('')
    expect(mountPathOf('http://[', 'https://queue.example.com/jobs')).toBe('')
    expect(mountPathOf('https://evil.example.com/ops/', 'https://queue.example.com/jobs')).toBe('')
  })
})

describe('addresses', () => {
  test('a name is read back from its part of a path as the router leaves it', () => {
    for (const name of ['mail', 'team/mail:eu@1', 'a b', 'ü']) {
      expect(readSegment(decodeURI(queuePath(name)).slice('/queues/'.length))).toBe(name)
    }
    expect(readSegment('100%')).toBe('100%')
  })

  test('a filter in an address can be read, and read back', () => {
    const path = jobsPath('state:dead,retrying error:"timed out" payload.a&b:#1')

    expect(path).toContain('filter=state:dead,retrying')
    expect(new URL(path, 'http://x').searchParams.get('filter')).toBe(
      'state:dead,retrying error:"timed out" payload.a&b:#1',
    )
  })

  test('what has no value is left out', () => {
    expect(withQuery('v1/jobs', { filter: '', cursor: null, limit: 50 })).toBe('v1/jobs?limit=50')
    expect(jobsPath('')).toBe('/jobs')
  })

  test('names cannot leave their place in a path', () => {
    expect(queuePath('../a?b#c')).toBe('/queues/..%2Fa%3Fb%23c')
    expect(jobPath('x/y')).toBe('/jobs/x%2Fy')
  })

  test('half a character does not break a link', () => {
    expect(queuePath('a\ud800b')).toBe('/queues/a%EF%BF%BDb')
    expect(jobsPath('tag:\udc00')).toContain('filter=tag:')
  })
})

describe('foreign addresses', () => {
  test('web addresses become links', () => {
    expect(webAddress('https://example.com/a?b=c')).toBe('https://example.com/a?b=c')
    expect(webAddress('HTTP://example.com')).toBe('http://example.com/')
  })

  test.each([
    'javascript:alert(1)',
    ' javascript:alert(1)',
    'JaVaScRiPt:alert(1)',
    'data:text/html,<script>alert(1)</script>',
    'vbscript:x',
    'file:///etc/passwd',
    '//evil.example.com',
    'https//missing.colon',
    'https://',
    'see https://example.com',
    '\u0001https://example.com',
  ])('%j does not', (text) => {
    expect(webAddress(text)).toBeNull()
  })
})
