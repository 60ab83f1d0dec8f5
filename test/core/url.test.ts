import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { redactUrl } from '../../src/core/url.js'

describe('redactUrl', () => {
  test.each([
    ['postgres://app:s3cret@db:5432/jobs', 'postgres://app:***@db:5432/jobs'],
    ['postgres://app@db/jobs', 'postgres://app@db/jobs'],
    [
      'postgres://db/jobs?user=app&password=s3cret&sslmode=require',
      'postgres://db/jobs?user=app&password=***&sslmode=require',
    ],
    ['postgres://app:s3/c@ret@db/jobs', 'postgres://app:***@db/jobs'],
    ['host=db password = s3cret user=app', 'host=db password = *** user=app'],
    ['redis://:s3cret@cache', 'redis://:***@cache'],
    ['embedded:./data', 'embedded:./data'],
    ['', ''],
  ])('%s is shown as %s', (url, shown) => {
    expect(redactUrl(url)).toBe(shown)
  })

  test('a long text is cut', () => {
    const shown = redactUrl(`postgres://db/${'x'.repeat(5_000)}`)

    expect(shown).toHaveLength(201)
    expect(shown.endsWith('…')).toBe(true)
  })

  test('no password stays, whatever surrounds it', () => {
    const plain = fc.string({ maxLength: 20 }).filter((text) => !/[:/@]/.test(text))
    fc.assert(
      fc.property(plain, fc.string({ maxLength: 20 }), plain, (user, around, host) => {
        const shown = redactUrl(`postgres://${user}:${around}hunter2${around}@${host}`)

        expect(shown).not.toContain('hunter2')
      }),
    )
  })
})
