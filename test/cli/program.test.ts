import { describe, expect, test } from 'vitest'
import { VERSION } from '../../src/version.js'
import { run } from './support.js'

const GROUPS: Readonly<Record<string, string>> = {
  jobs: 'list show explain tail edit cancel requeue discard delete run-again',
  dlq: 'groups list requeue',
  queues: 'list show pause resume set remove',
  limits: 'list show set remove open close release',
  groups: 'list show set clear pause resume',
  schedules: 'add list next ticks backfill run pause resume remove',
  workers: 'list',
  bulk: 'list show cancel',
  migrate: 'up status sql roles',
  import: 'bullmq pg-boss graphile-worker',
  keys: 'create list revoke',
  config: 'show',
}
const COMMANDS = [
  ...['dev', 'worker', 'server', 'enqueue', 'stats', 'top', 'tail', 'audit', 'doctor', 'migrate', 'apply'],
  ...Object.entries(GROUPS).flatMap(([group, names]) => names.split(' ').map((name) => `${group} ${name}`)),
]

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
    for (const part of ['--url', '--schema', '--json', '--color', 'Examples:', '$ ']) expect(stdout).toContain(part)
  })

  test.each([...Object.keys(GROUPS), 'completion'])('%s lists its commands, with examples', async (group) => {
    const { code, stdout } = await run([group, '--help'])

    expect(code).toBe(0)
    expect(stdout).toContain('Examples:')
    for (const name of GROUPS[group]?.split(' ') ?? []) expect(stdout).toMatch(new RegExp(`^  ${name}\\b`, 'm'))
  })

  test('help with the words of a command is the help of that command', async () => {
    const asked = await run(['help', 'jobs', 'list'])

    expect(asked).toMatchObject({ code: 0, stdout: (await run(['jobs', 'list', '--help'])).stdout, stderr: '' })
    expect(await run(['help', 'jobs', 'lost'])).toMatchObject({ code: 2, stdout: '' })
  })

  test('the version is the one of the package', async () => {
    expect(await run(['--version'])).toMatchObject({ code: 0, stdout: `${VERSION}\n`, stderr: '' })
  })
})

describe('usage', () => {
  test.each([
    { line: 'enqeue', says: '(Did you mean enqueue?)' },
    { line: 'jobs sow', says: '(Did you mean show?)' },
    { line: 'dlq requeu', says: '(Did you mean requeue?)' },
    { line: 'jobs list --colour', says: '(Did you mean --color?)' },
    { line: 'jobs list --color sometimes', says: 'Allowed choices are auto, always, never.' },
    { line: 'jobs list --json --jsonl', says: 'cannot be used with option' },
    { line: 'top --every 1ms', says: 'It must be from 250ms to 1h.' },
    { line: 'completion tcsh', says: 'Allowed choices are bash, zsh, fish.' },
    { line: 'enqueue a --wiat 1s', says: '(Did you mean --wait?)' },
    { line: 'enqueue', says: "missing required argument 'type'" },
    { line: 'enqueue a --priority high', says: 'It must be a whole number.' },
    { line: 'enqueue a --delay soon', says: 'It must be a duration such as 250ms' },
    { line: 'worker jobs.js --log-level loud', says: 'Allowed choices are debug, info, warn, error, silent.' },
    { line: 'worker jobs.js --metrics-port high', says: 'It must be a whole number.' },
    { line: 'server --log-format xml', says: 'Allowed choices are pretty, json.' },
    { line: 'server --port 70000', says: 'port must be a whole number from 0 to 65535' },
    { line: 'server --host 0.0.0.0', says: '--api-keys (make one with `holdfast keys create`)' },
    { line: 'server --base-path queue/', says: 'basePath must be' },
    { line: 'server --trust-proxy 127.0.0.1', says: '--trust-proxy needs a secret that the proxy sends' },
    { line: 'server --proxy-header x-user', says: 'give their addresses with --trust-proxy' },
    { line: 'server --allow-host Queue.Example.com', says: 'a host must be as browsers send it' },
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

describe('options that every command takes', () => {
  const shown = async (line: readonly string[], env: Record<string, string> = {}) => {
    const { code, stdout } = await run(line, { env })
    expect(code).toBe(0)
    const { settings } = JSON.parse(stdout) as { settings: { name: string; value: string }[] }
    return settings.filter(({ name }) => name === 'url' || name === 'schema').map(({ value }) => value)
  }

  test.each([
    { where: 'before the command', line: '--url postgres://a/b --schema jobs --json config show' },
    { where: 'between a group and its command', line: 'config --url postgres://a/b --schema jobs --json show' },
    { where: 'here and there', line: '--json config --schema jobs show --url postgres://a/b' },
    { where: 'twice, the later one winning', line: '--url x --schema jobs --json config show --url postgres://a/b' },
  ])('$where', async ({ line }) => {
    expect(await shown(line.split(' '), { HOLDFAST_SCHEMA: 'elsewhere' })).toEqual(['postgres://a/b', 'jobs'])
  })

  test('an option that the command does not have is refused, not dropped', async () => {
    const { code, stderr } = await run(['--json', 'completion', 'bash'])

    expect(code).toBe(2)
    expect(stderr).toContain('completion has no option --json')
  })
})

describe('colour', () => {
  const line = ['config', 'show']
  // biome-ignore lint/suspicious/noControlCharactersInRegex: escape sequences are what it looks for
  const COLOUR = /\u001b\[/

  test.each([
    { what: 'a pipe has none', args: [], env: {}, isColoured: false },
    { what: 'FORCE_COLOR turns it on', args: [], env: { FORCE_COLOR: '1' }, isColoured: true },
    { what: 'NO_COLOR turns it off', args: [], env: { NO_COLOR: '1' }, isColoured: false },
    {
      what: '--color always wins over NO_COLOR',
      args: ['--color', 'always'],
      env: { NO_COLOR: '1' },
      isColoured: true,
    },
    {
      what: '--color never wins over FORCE_COLOR',
      args: ['--color=never'],
      env: { FORCE_COLOR: '1' },
      isColoured: false,
    },
    { what: 'JSON never has any', args: ['--json', '--color=always'], env: {}, isColoured: false },
  ])('$what', async ({ args, env, isColoured }) => {
    const { code, stdout } = await run([...line, ...args], { env: env as Record<string, string> })

    expect(code).toBe(0)
    expect(COLOUR.test(stdout)).toBe(isColoured)
  })
})

describe('config show', () => {
  test('knows every variable that an option of a command names', async () => {
    const helps = await Promise.all(
      ['worker', 'server', 'dev', 'doctor', 'jobs edit'].map((name) => run(['help', ...name.split(' ')])),
    )
    const variables = helps.flatMap(({ stdout }) => stdout.match(/HOLDFAST_[A-Z_]+/g) ?? [])
    const env = Object.fromEntries(variables.map((variable) => [variable, 'given']))

    const { stdout } = await run(['config', 'show', '--json'], { env })
    const { settings } = JSON.parse(stdout) as { settings: { source: string }[] }

    expect(variables.length).toBeGreaterThan(30)
    expect(new Set(settings.map(({ source }) => source))).toEqual(new Set([...variables, 'default']))
    expect(stdout).toContain('***')
  })

  test('shows each setting and where it comes from, without passwords', async () => {
    const env = { DATABASE_URL: 'postgres://app:opensesame@db/shop', HOLDFAST_CONCURRENCY: '4' }

    const { stdout } = await run(['config', 'show', '--schema', 'jobs', '--json'], { env })
    const { settings } = JSON.parse(stdout) as { settings: { name: string }[] }

    expect(stdout).not.toContain('opensesame')
    expect(settings).toEqual(
      expect.arrayContaining([
        { name: 'url', value: 'postgres://app:***@db/shop', source: 'DATABASE_URL' },
        { name: 'schema', value: 'jobs', source: '--schema' },
        { name: 'worker concurrency', value: '4', source: 'HOLDFAST_CONCURRENCY' },
        { name: 'worker claim-batch', value: '500', source: 'default' },
      ]),
    )
  })
})
