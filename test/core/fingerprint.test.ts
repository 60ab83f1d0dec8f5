import { describe, expect, test } from 'vitest'
import { fingerprint, normalise } from '../../src/core/fingerprint.js'

describe('normalise', () => {
  test.each([
    ['user 4182 not found', 'user <number> not found'],
    ['took 1.5 s, 2,000 rows', 'took <number> s, <number> rows'],
    ['job 019ca945-0a09-7878-92ce-4430c91506ae failed', 'job <uuid> failed'],
    ['GET https://api.example.com/v1/users/7?x=1 failed', 'GET <url> failed'],
    ['no column "email" in \'users\'', 'no column <text> in <text>'],
    ['at 2026-11-01T10:00:00.123Z and 2026-11-01', 'at <date> and <date>'],
    ['commit 9fceb02d0ae598e95dc970b74767f19372d61af8 is gone', 'commit <hex> is gone'],
    ['at 0x7ffe', 'at <hex>'],
    ['no mailbox for ann.lee+x@example.co.uk', 'no mailbox for <address>'],
    ['connect ECONNREFUSED 127.0.0.1:5432', 'connect ECONNREFUSED <number>'],
    ['  two\n  lines ', 'two lines'],
    ['a plain deadbeef word', 'a plain deadbeef word'],
  ])('%s', (message, expected) => {
    expect(normalise(message)).toBe(expected)
  })
})

describe('fingerprint', () => {
  const stack = (line: string) => `Error: boom\n    at ${line}\n    at run (/app/dist/jobs.js:10:3)`

  test('is 14 hex digits', () => {
    expect(fingerprint({ name: 'Error', message: 'boom' })).toMatch(/^[0-9a-f]{14}$/)
    expect(fingerprint(null)).toMatch(/^[0-9a-f]{14}$/)
  })

  test('is the same for errors that differ in what varies', () => {
    const one = { name: 'Error', message: 'user 7 not found', stack: stack('find (/app/v1/users.js:10:3)') }
    const other = { name: 'Error', message: 'user 12 not found', stack: stack('find (/app/v2/users.js:99:1)') }

    expect(fingerprint(one)).toBe(fingerprint(other))
  })

  test('differs with the name, the code, the message and the first frame', () => {
    const marks = [
      { name: 'Error', message: 'boom' },
      { name: 'TypeError', message: 'boom' },
      { name: 'Error', message: 'bang' },
      { name: 'Error', message: 'boom', code: 'E_BOOM' },
      { name: 'Error', message: 'boom', stack: stack('find (/app/users.js:10:3)') },
      { name: 'Error', message: 'boom', stack: stack('load (/app/users.js:10:3)') },
      { name: 'Error', message: 'boom', stack: stack('find (/app/mail.js:10:3)') },
    ].map(fingerprint)

    expect(new Set([...marks, fingerprint(null)]).size).toBe(8)
  })

  test.each([
    '/app/users.js:10:3',
    'async find (/app/users.js:10:3)',
    'node:internal/x:1:1',
    'C:\\app\\users.js:10:3',
    '',
  ])('reads the frame %s without its line number', (frame) => {
    const at = (line: string) => fingerprint({ name: 'Error', message: 'boom', stack: stack(line) })

    expect(at(frame)).toBe(at(frame.replace('10:3', '99:1')))
  })

  test('does not grow slow with hostile messages', () => {
    const message = `${'a'.repeat(200_000)}"${'0'.repeat(200_000)}`

    expect(fingerprint({ name: 'Error', message, stack: `x\n    at ${'('.repeat(5_000)}` })).toHaveLength(14)
  })
})
