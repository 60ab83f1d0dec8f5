import { describe, expect, test } from 'vitest'
import { progressText } from '../../src/cli/output/progress.js'
import { cutTo, padTo, visible, visibleJson, widthOf, wrap } from '../../src/cli/output/terminal.js'
import { spanText } from '../../src/cli/output/times.js'
import { start } from './support.js'

describe('text from jobs', () => {
  test('control characters become visible', () => {
    expect(visible('a\u001b[31mb\nc\t\u0000\u009b\u007f')).toBe('a\\u001b[31mb\\nc\\t\\u0000\\u009b\\u007f')
  })

  test('characters that reorder or hide become visible, joiners stay', () => {
    expect(visible('a\u202eb\u2066c\ufeffd\u2028')).toBe('a\\u202eb\\u2066c\\ufeffd\\u2028')
    expect(visible('👩‍💻')).toBe('👩‍💻')
  })

  test('lone halves of a pair become visible', () => {
    expect(visible('a\ud83db')).toBe('a\\ud83db')
  })

  test('JSON stays the same value', () => {
    const value = { '\u009b': ['\u001b[2J', '\u202e', 'ä😀', null, 1.5] }

    const text = visibleJson(value)

    expect(JSON.parse(text)).toEqual(value)
    // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it looks for
    expect(text).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/)
  })
})

describe('widths', () => {
  test.each([
    ['plain', 5],
    ['äé', 2],
    ['e\u0301', 1],
    ['日本', 4],
    ['😀', 2],
    ['👩‍💻', 2],
  ])('%s takes %i columns', (text, width) => {
    expect(widthOf(text)).toBe(width)
  })

  test('padding counts columns, and never cuts', () => {
    expect([padTo('日本', 6), padTo('7', 3, 'right'), padTo('longer', 3)]).toEqual(['日本  ', '  7', 'longer'])
  })

  test('lines break at blanks, and inside a word that is too long', () => {
    expect(wrap('one two three', 8)).toEqual(['one two', 'three'])
    expect(wrap('abcdefghij k', 4)).toEqual(['abcd', 'efgh', 'ij k'])
    expect(wrap('日本語', 4)).toEqual(['日本', '語'])
    expect(wrap('', 4)).toEqual([''])
  })
})

describe('what is too long', () => {
  test.each([
    ['abcdef', 6, 'abcdef'],
    ['abcdef', 5, 'abcd…'],
    ['abcdef', 1, '…'],
    ['abcdef', 0, ''],
    ['日本語', 4, '日…'],
    ['日本語', 2, '…'],
    ['one two three', 8, 'one two…'],
  ])('%s in %i columns is %s', (text, width, cut) => {
    expect(cutTo(text, width)).toBe(cut)
    expect(widthOf(cutTo(text, width))).toBeLessThanOrEqual(width)
  })
})

describe('progress', () => {
  test.each([
    [6_100, 10_000, 2_641, '[==============>         ] 61% 6,100/10,000 · 2,310/s · ETA 1.7 s'],
    [0, 10, 100, '[                        ] 0% 0/10 · 0/s'],
    [12, 10, 1_000, '[=======================>] 100% 12/10 · 12/s · ETA under 1 ms'],
    [1_200, null, 1_000, '1,200 · 1,200/s'],
  ])('%i of %s after %i ms', (done, total, tookMs, text) => {
    expect(progressText(done, total, tookMs)).toBe(text)
  })
})

describe('lengths of time', () => {
  test.each([
    [0.2, 'under 1 ms'],
    [12, '12 ms'],
    [1_400, '1.4 s'],
    [30_000, '30 s'],
    [150_000, '2.5 min'],
    [7_200_000, '2 h'],
    [864_000_000, '10 d'],
  ])('%f ms are %s', (ms, text) => {
    expect(spanText(ms)).toBe(text)
  })
})

describe('colour', () => {
  const printed = async (env: Record<string, string>) =>
    (await start(['stats', '--url', 'mysql://x'], { env }).ended).stderr

  test('is on when it is forced, and off in a pipe or with NO_COLOR', async () => {
    expect(await printed({ FORCE_COLOR: '1' })).toContain('\u001b[31merror:')
    expect(await printed({})).not.toContain('\u001b')
    expect(await printed({ NO_COLOR: '1' })).not.toContain('\u001b')
  })
})
