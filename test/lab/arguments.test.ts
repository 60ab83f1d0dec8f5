// The benchmark's command line: mistakes are reported before anything runs.

import { describe, expect, test } from 'vitest'
import { choose, readArguments, UsageError } from '../../lab/bench/arguments.js'

const CHOICES = {
  measures: ['single, 1 caller', 'drain, one process', 'drain, with keys'],
  contenders: ['holdfast', 'bare-sql', 'pg-boss'],
  growth: ['backlog', 'slots'],
  flow: ['plain', '1,000 groups of limit 1'],
}
const read = (...words: string[]) => readArguments(words, CHOICES)

describe('side by side', () => {
  test('without options everything is measured in three rounds', () => {
    expect(read()).toEqual({
      program: 'compare',
      measures: CHOICES.measures,
      contenders: CHOICES.contenders,
      rounds: 3,
      appendfsync: 'everysec',
      isQuick: false,
      isJson: false,
    })
  })

  test('a whole name chooses itself alone', () => {
    const choices = { ...CHOICES, contenders: ['holdfast', 'holdfast-redis', 'redis-list'] }

    expect(readArguments(['--contenders', 'holdfast;list'], choices)).toMatchObject({
      contenders: ['holdfast', 'redis-list'],
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
      appendfsync: 'everysec',
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
    [
      ['--round', '1'],
      /Unknown option '--round'; this takes --json, --quick, --rounds, --only, --contenders, --appendfsync/,
    ],
    [['--rounds', 'many'], /--rounds must be a whole number from 1 to 20, got "many"/],
    [['--rounds', '0'], /got "0"/],
    [['--appendfsync', 'no'], /--appendfsync must be everysec or always, got "no"/],
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

describe('fleet', () => {
  test('takes the folder of the other checkout, three rounds and windows of fifteen seconds', () => {
    expect(read('fleet', '--against', '../before')).toEqual({
      program: 'fleet',
      against: '../before',
      rounds: 3,
      seconds: 15,
      isQuick: false,
      isJson: false,
    })
  })

  test.each([
    [[], /--against must name the folder of the other checkout/],
    [['--against', ' '], /--against must name the folder/],
    [['--against', 'x', '--seconds', '0'], /--seconds must be a whole number from 1 to 600, got "0"/],
    [['--against', 'x', '--rounds', '21'], /--rounds must be a whole number from 1 to 20/],
    [['--against', 'x', '--minutes', '1'], /Unknown option '--minutes'/],
  ])('%j is refused', (words, message) => {
    expect(() => read('fleet', ...words)).toThrow(UsageError)
    expect(() => read('fleet', ...words)).toThrow(message)
  })
})

test('choosing nothing in particular chooses all', () => {
  expect(choose('measure', ['a', 'b'], undefined)).toEqual(['a', 'b'])
})

describe('flow', () => {
  test('without options every load is drained in three rounds', () => {
    expect(read('flow')).toEqual({
      program: 'flow',
      loads: CHOICES.flow,
      rounds: 3,
      against: null,
      isSnapshot: false,
      minutes: null,
      isQuick: false,
      isJson: false,
    })
  })

  test('another checkout, or a snapshot that is held for a time', () => {
    expect(read('flow', '--against', '../before', '--rounds', '5')).toMatchObject({ against: '../before', rounds: 5 })
    expect(read('flow', '--snapshot', '--minutes', '5')).toMatchObject({ isSnapshot: true, minutes: 5 })
    expect(read('flow', '--only', 'plain')).toMatchObject({ loads: ['plain'] })
  })

  test.each([
    [['--only', 'tenants'], /no load has "tenants" in its name/],
    [['--against', ' '], /--against must name the folder/],
    [['--snapshot', '--against', 'x'], /two measurements/],
    [['--minutes', '5'], /--minutes goes with --snapshot/],
    [['--snapshot', '--minutes', '0'], /--minutes must be a number from 0.1 to 120/],
  ])('%j is refused', (words, message) => {
    expect(() => read('flow', ...words)).toThrow(UsageError)
    expect(() => read('flow', ...words)).toThrow(message)
  })
})
