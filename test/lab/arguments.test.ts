// The benchmark's command line: mistakes are reported before anything runs.

import { describe, expect, test } from 'vitest'
import { choose, readArguments, UsageError } from '../../lab/bench/arguments.js'

const CHOICES = {
  measures: ['single, 1 caller', 'drain, one process', 'drain, with keys'],
  contenders: ['holdfast', 'bare-sql', 'pg-boss'],
  growth: ['backlog', 'slots'],
}
const read = (...words: string[]) => readArguments(words, CHOICES)

describe('side by side', () => {
  test('without options everything is measured in three rounds', () => {
    expect(read()).toEqual({
      program: 'compare',
      measures: CHOICES.measures,
      contenders: CHOICES.contenders,
      rounds: 3,
      isQuick: false,
      isJson: false,
    })
  })

  test('a part of a name chooses all that contain it, in the order of the table', () => {
    const chosen = read(
      '--only',
      'keys; single',
      '--contenders',
      'bare-sql;holdfast',
      '--rounds',
      '1',
      '--quick',
      '--json',
    )

    expect(chosen).toEqual({
      program: 'compare',
      measures: ['single, 1 caller', 'drain, with keys'],
      contenders: ['holdfast', 'bare-sql'],
      rounds: 1,
      isQuick: true,
      isJson: true,
    })
  })

  test.each([
    [['--only', 'darin'], /no measure has "darin" in its name; there are: single, 1 caller; /],
    [['--only', 'drain;'], /no measure has "" in its name/],
    [
      ['--contenders', 'holdfast;river'],
      /no contender has "river" in its name; there are: holdfast; bare-sql; pg-boss/,
    ],
    [['--round', '1'], /Unknown option '--round'; this takes --json, --quick, --rounds, --only, --contenders/],
    [['--rounds', 'many'], /--rounds must be a whole number from 1 to 20, got "many"/],
    [['--rounds', '0'], /got "0"/],
    [['--minutes', '5'], /Unknown option '--minutes'/],
    [['--only'], /argument missing/],
    [['grwoth'], /there is no benchmark "grwoth"/],
    [['--quick', 'drain'], /Unexpected argument 'drain'/],
  ])('%j is refused', (words, message) => {
    expect(() => read(...words)).toThrow(UsageError)
    expect(() => read(...words)).toThrow(message)
  })
})

describe('growth', () => {
  test('without options everything is measured, and minutes and folder are left open', () => {
    expect(read('growth')).toEqual({
      program: 'growth',
      measures: CHOICES.growth,
      minutes: null,
      out: null,
      isQuick: false,
      isJson: false,
    })
  })

  test('minutes and folder are taken as given', () => {
    const chosen = read('growth', '--only', 'slots', '--minutes', '0.5', '--out', 'docs/findings/plots')

    expect(chosen).toMatchObject({ measures: ['slots'], minutes: 0.5, out: 'docs/findings/plots' })
  })

  test.each([
    [['--only', 'drain'], /no measure has "drain" in its name; there are: backlog; slots/],
    [['--minutes', '0'], /--minutes must be a number from 0.1 to 120, got "0"/],
    [['--minutes', ''], /got ""/],
    [['--minutes', '1000'], /got "1000"/],
    [['--out', ' '], /--out must name a folder/],
    [['--rounds', '2'], /Unknown option '--rounds'/],
  ])('%j is refused', (words, message) => {
    expect(() => read('growth', ...words)).toThrow(UsageError)
    expect(() => read('growth', ...words)).toThrow(message)
  })
})

test('choosing nothing in particular chooses all', () => {
  expect(choose('measure', ['a', 'b'], undefined)).toEqual(['a', 'b'])
})
