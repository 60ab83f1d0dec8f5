import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { FILTER_KEYS } from '../../dashboard/src/filter/keys.js'
import { addView, readViews, removeView, STARTING_VIEWS, writeViews } from '../../dashboard/src/filter/saved-views.js'
import { type KnownNames, suggest, take } from '../../dashboard/src/filter/suggest.js'
import { quote, termsOf, valuesOf, withValues } from '../../dashboard/src/filter/terms.js'
import { parseFilter } from '../../src/core/filter.js'
import { FILTER_FIELDS } from '../../src/core/filter-fields.js'

const known: KnownNames = {
  queues: ['billing', 'email', 'email_bulk'],
  types: ['send_email', 'resize'],
  groups: ['acme', 'zenith'],
  tags: ['two words'],
  workers: [],
  schedules: ['nightly'],
}

/** Suggestions for a text in which | marks the caret. */
function suggestAt(marked: string): readonly string[] {
  const caret = marked.indexOf('|')
  return suggest(marked.replace('|', ''), caret, known).options.map(({ label }) => label)
}

describe('terms', () => {
  test('a text is split at blanks outside quotes, each term with its key and values', () => {
    const terms = termsOf('state:dead,retrying  -tag:"two words" plain')

    expect(terms.map(({ key, negated, values }) => [key, negated, values.map(({ text }) => text)])).toEqual([
      ['state', false, ['dead', 'retrying']],
      ['tag', true, ['two words']],
      [null, false, ['plain']],
    ])
  })

  test('any text is split without loss', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 60 }), (text) => {
        const covered = termsOf(text).map(({ start, end }) => text.slice(start, end))
        expect(covered.join('').replace(/[ \t\n\r]/g, '')).toBe(text.replace(/[ \t\n\r]/g, ''))
      }),
    )
  })

  test('the filter language reads a quoted value back unchanged', () => {
    fc.assert(
      fc.property(fc.string({ minLength: 1, maxLength: 40 }), (text) => {
        expect(parseFilter(`error:${quote(text)}`).errors).toEqual([[text]])
      }),
    )
  })

  test('the values of a key are set in place, added in front, and taken out', () => {
    expect(withValues('queue:email state:dead tag:eu', 'state', ['ready', 'running'])).toBe(
      'queue:email state:ready,running tag:eu',
    )
    expect(withValues('queue:email', 'state', ['dead'])).toBe('state:dead queue:email')
    expect(withValues('state:dead queue:email', 'state', [])).toBe('queue:email')
  })

  test('negated terms are neither read nor changed', () => {
    expect(valuesOf('-state:dead state:ready', 'state')).toEqual(['ready'])
    expect(withValues('-state:dead', 'state', ['ready'])).toBe('state:ready -state:dead')
  })
})

describe('suggestions', () => {
  test('every key of the language is offered', () => {
    const offered = FILTER_KEYS.map(({ key }) => key.replace(/\.$/, ''))
    const negatable = FILTER_KEYS.filter(({ canNegate }) => canNegate).map(({ key }) => `-${key}`)

    expect([...offered, ...negatable].sort()).toEqual(FILTER_FIELDS.map(({ key }) => key).sort())
  })

  test('every example and every starting view is a valid filter', () => {
    const examples = FILTER_KEYS.filter(({ key }) => key !== 'id').map(({ example }) => example)
    const views = STARTING_VIEWS.map(({ filter }) => filter)

    for (const text of [...examples, ...views]) expect(() => parseFilter(text)).not.toThrow()
  })

  test('an empty bar offers keys, a beginning narrows them', () => {
    expect(suggestAt('|')[0]).toBe('state:')
    expect(suggestAt('st|')).toEqual(['state:'])
    expect(suggestAt('state:dead que|')).toEqual(['queue:'])
  })

  test('behind a minus only keys that can be negated are offered', () => {
    expect(suggestAt('-|')).toEqual(['state:', 'queue:', 'type:', 'tag:'])
  })

  test('behind a colon values are offered, those that begin with the text first', () => {
    expect(suggestAt('state:re|')).toEqual(['ready', 'retrying'])
    expect(suggestAt('queue:mail|')).toEqual(['email', 'email_bulk'])
  })

  test('a value that is already there is not offered again', () => {
    expect(suggestAt('queue:email,|')).toEqual(['billing', 'email_bulk'])
  })

  test('a key taken waits for its value, a value taken ends its term', () => {
    const key = suggest('sta', 3, known)
    const value = suggest('state:de', 8, known)

    expect(take('sta', key, key.options[0]!)).toEqual({ text: 'state:', caret: 6 })
    expect(take('state:de', value, value.options[0]!)).toEqual({ text: 'state:dead ', caret: 11 })
  })

  test('a value in the middle is replaced alone, and quoted where it must be', () => {
    const text = 'tag:tw queue:email'
    const found = suggest(text, 6, known)

    expect(take(text, found, found.options[0]!)).toEqual({ text: 'tag:"two words" queue:email', caret: 16 })
  })

  test('any text with the caret anywhere has suggestions inside the text', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 40 }), fc.nat(40), (text, position) => {
        const caret = Math.min(position, text.length)
        const { from, to } = suggest(text, caret, known)
        expect(from).toBeGreaterThanOrEqual(0)
        expect(to).toBeLessThanOrEqual(text.length)
        expect(from).toBeLessThanOrEqual(to)
      }),
    )
  })
})

describe('saved views', () => {
  test('views are read back as they were written', () => {
    const views = [{ name: 'Mine', filter: 'state:dead' }]

    expect(readViews(writeViews(views))).toEqual(views)
  })

  test('anything but a list of views gives the starting views', () => {
    for (const text of [null, '', '{', '7', '{"a":1}']) expect(readViews(text)).toEqual(STARTING_VIEWS)
  })

  test('a view replaces one of its name, and none is saved without a name', () => {
    const views = addView([{ name: 'Mine', filter: 'state:dead' }], { name: ' Mine ', filter: 'state:ready' })

    expect(views).toEqual([{ name: 'Mine', filter: 'state:ready' }])
    expect(addView(views, { name: '  ', filter: 'x' })).toBe(views)
    expect(removeView(views, 'Mine')).toEqual([])
  })
})
