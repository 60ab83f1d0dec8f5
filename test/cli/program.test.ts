import { describe, expect, test } from 'vitest'
import { VERSION } from '../../src/version.js'
import { run } from './support.js'

const COMMANDS = ['dev', 'worker', 'enqueue', 'jobs show', 'stats', 'migrate']

describe('help', () => {
  test('the program lists its commands and its exit codes on stdout', async () => {
    const { code, stdout, stderr } = await run(['--help'])

    expect(code).toBe(0)
    expect(stderr).toBe('')
    for (const name of COMMANDS) expect(stdout).toMatch(new RegExp(`^  ${name.split(' ')[0]}\\b`, 'm'))
    expect(stdout).toContain('4    cannot connect')
  })

  test.each(COMMANDS)('%s explains its options, with examples', async (name) => {
    const { code, stdout } = await run([...name.split(' '), '--help'])

    expect(code).toBe(0)
    for (const part of ['--url', '--schema', '--json', 'Examples:', '$ ']) expect(stdout).toContain(part)
  })

  test('the version is the one of the package', async () => {
    expect(await run(['--version'])).toMatchObject({ code: 0, stdout: `${VERSION}\n`, stderr: '' })
  })
})

describe('usage', () => {
  test.each([
    { line: 'enqeue', says: '(Did you mean enqueue?)' },
    { line: 'jobs sow', says: '(Did you mean show?)' },
    { line: 'enqueue a --wiat 1s', says: '(Did you mean --wait?)' },
    { line: 'enqueue', says: "missing required argument 'type'" },
    { line: 'enqueue a --priority high', says: 'It must be a whole number.' },
    { line: 'enqueue a --delay soon', says: 'It must be a duration such as 250ms' },
    { line: 'worker jobs.js --log loud', says: 'Allowed choices are all, problems, none.' },
    { line: '', says: 'Usage: holdfast' },
  ])('`holdfast $line` is refused with 2 and on stderr', async ({ line, says }) => {
    const { code, stdout, stderr } = await run(line.split(' ').filter(Boolean))

    expect(code).toBe(2)
    expect(stdout).toBe('')
    expect(stderr).toContain(says)
  })

  test('a wrong setting in the environment is named with its variable', async () => {
    const { code, stderr } = await run(['worker', 'jobs.js'], { env: { HOLDFAST_CONCURRENCY: 'many' } })

    expect(code).toBe(2)
    expect(stderr).toContain("from env 'HOLDFAST_CONCURRENCY' is invalid")
  })
})
