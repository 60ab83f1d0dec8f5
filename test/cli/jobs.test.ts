import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { dropSchema, testServerUrl } from '../support/postgres.js'
import { makeProject, type RunOptions, run, start } from './support.js'

const url = testServerUrl()
const schema = `cli_jobs_${randomBytes(4).toString('hex')}`
const at: RunOptions = { env: { HOLDFAST_URL: url, HOLDFAST_SCHEMA: schema } }

beforeAll(async () => {
  const store = await postgresStore(url, { schema })
  await store.close()
})
afterAll(() => dropSchema(url, schema))

async function enqueue(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await run(['enqueue', ...args], at)
  expect(code, stderr).toBe(0)
  return stdout.trim()
}

async function show(id: string): Promise<Record<string, unknown>> {
  const { code, stdout, stderr } = await run(['jobs', 'show', id, '--json'], at)
  expect(code, stderr).toBe(0)
  return JSON.parse(stdout)
}

describe('enqueue', () => {
  test('prints only the id on stdout, and the job is as it was given', async () => {
    const payload = { to: 'ada@example.com', lines: ['ä', '😀'], nested: { deep: [1, null] } }

    const id = await enqueue(
      ...['send_email', JSON.stringify(payload), '--queue', 'email', '--priority=-7', '--delay', '1h'],
      ...['--max-attempts', '3', '--tag', 'eu', '--tag', 'vip', '--key', 'welcome:42'],
    )
    const shown = await show(id)

    expect(id).toMatch(/^[0-9a-f-]{36}$/)
    expect(shown).toMatchObject({
      schemaVersion: 1,
      job: {
        id,
        payload,
        type: 'send_email',
        queue: 'email',
        priority: -7,
        state: 'scheduled',
        maxAttempts: 3,
        tags: ['eu', 'vip'],
        idempotencyKey: 'welcome:42',
      },
    })
  })

  test('prints one JSON document with --json, and nothing on stderr', async () => {
    const { code, stdout, stderr } = await run(['enqueue', 'a', '--json'], at)

    expect(code).toBe(0)
    expect(JSON.parse(stdout)).toEqual({ schemaVersion: 1, id: expect.any(String), created: true, state: 'ready' })
    expect(stderr).toBe('')
  })

  test('with an idempotency key that is taken it prints the job that holds it', async () => {
    const first = await enqueue('a', '1', '--key', 'once')

    const { code, stdout, stderr } = await run(['enqueue', 'a', '2', '--key', 'once'], at)

    expect(code).toBe(0)
    expect(stdout.trim()).toBe(first)
    expect(stderr).toContain(`nothing enqueued: job ${first} already holds this key; it is ready`)
  })

  test('reads the payload from stdin', async () => {
    const { stdout } = await run(['enqueue', 'a', '-'], { ...at, input: '{"from":"stdin"}\n' })

    expect(await show(stdout.trim())).toMatchObject({ job: { payload: { from: 'stdin' } } })
  })

  test.each([
    { line: 'a {broken', code: 2, says: 'the payload must be JSON' },
    { line: 'a;b 1', code: 2, says: 'invalid_name' },
    { line: 'a --run-at 2030-02-30T00:00:00Z', code: 2, says: 'runAt must be a Date' },
    { line: 'a --run-at 2030-01-01T00:00:00Z --delay 1s', code: 2, says: 'give one of them' },
    { line: 'a --key-for 1h', code: 2, says: 'give the key with --key' },
    { line: 'a --after 01890000-0000-7000-8000-000000000000', code: 3, says: 'unknown_parent' },
    { line: 'a --wait 200ms', code: 124, says: 'wait_timeout' },
  ])('`enqueue $line` ends with $code', async ({ line, code, says }) => {
    const ended = await run(['enqueue', ...line.split(' '), '--queue', 'refused'], at)

    expect(ended.code).toBe(code)
    expect(ended.stdout).toBe('')
    expect(ended.stderr).toContain(says)
  })

  test('warns when no worker serves the queue', async () => {
    const { stderr } = await run(['enqueue', 'a', '--queue', 'lonely'], at)

    expect(stderr).toContain('no worker serves this queue')
  })
})

describe('jobs show', () => {
  test('takes the end of an id', async () => {
    const id = await enqueue('a', '"short"')

    expect(await show(id.slice(-8))).toMatchObject({ job: { id } })
  })

  test.each([
    { id: '01890000-0000-7000-8000-000000000000', code: 3, says: 'there is no job' },
    { id: 'ffffffffffff', code: 3, says: 'has an id that ends in' },
    { id: 'nonsense', code: 2, says: 'the id of a job is a UUID' },
  ])('$id ends with $code', async ({ id, code, says }) => {
    const ended = await run(['jobs', 'show', id], at)

    expect(ended.code).toBe(code)
    expect(ended.stdout).toBe('')
    expect(ended.stderr).toContain(says)
  })

  test('the content of a job cannot move a cursor, set a colour or reorder a line', async () => {
    const hostile = '\u001b[2J\u001b]0;owned\u0007\u009b31m\u202e\r\nnext\u0000'
    const project = await makeProject({ 'jobs.js': HOSTILE_JOBS })
    const worker = start(['worker', './jobs.js', '--log-level', 'debug', '--log-format', 'pretty'], {
      ...at,
      cwd: project,
    })
    const id = await enqueue('hostile', JSON.stringify({ [hostile]: hostile }), '--queue', 'hostile')
    const line = await worker.line(/hostile .* dead:/)

    const text = await run(['jobs', 'show', id, '--verbose'], at)
    const json = await run(['jobs', 'show', id, '--json'], at)

    for (const output of [line, text.stdout, json.stdout]) expect(output).not.toMatch(OBEYED)
    expect(text.stdout).toContain('\\u001b[2J')
    expect(JSON.parse(json.stdout)).toMatchObject({ job: { payload: { [hostile]: hostile } } })
  })
})

// What a terminal would act on; line breaks are the layout's own.
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it looks for
const OBEYED = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/

const HOSTILE_JOBS = `
import { defineJob, DropJob } from 'holdfast'
const hostile = defineJob('hostile', { queue: 'hostile' })
export const handlers = [hostile.handle((payload, ctx) => {
  const [text] = Object.values(payload)
  ctx.log(text)
  ctx.progress({ [text]: text })
  throw new DropJob(text)
})]
`

describe('stats', () => {
  test('counts each queue, and all of them', async () => {
    await enqueue('a', '1', '--queue', 'counted')
    await enqueue('a', '1', '--queue', 'counted', '--delay', '1h')

    const json = await run(['stats', '--json', '--queue', 'counted'], at)
    const text = await run(['stats'], at)

    expect(JSON.parse(json.stdout)).toMatchObject({
      schemaVersion: 1,
      total: { ready: 1, scheduled: 1, dead: 0 },
      queues: [{ name: 'counted', paused: false, ready: 1, scheduled: 1 }],
    })
    expect(text.stdout).toMatch(/^counted +1 +0 +1 +0 +0 +0 /m)
    expect(text.stdout).toMatch(/^all queues /m)
  })
})

describe('migrate', () => {
  const FIRST = expect.arrayContaining([expect.objectContaining({ number: 1, name: 'life_of_a_job' })])

  test('applies what is missing and lists all of them; --check changes nothing', async () => {
    const own = `${schema}_migrate`
    const before = await run(['migrate', '--check', '--schema', own, '--json'], at)
    const applied = await run(['migrate', '--schema', own], at)
    const after = await run(['migrate', '--check', '--schema', own, '--json'], at)
    await dropSchema(url, own)

    expect(before.code).toBe(7)
    expect(JSON.parse(before.stdout)).toMatchObject({ schema: own, applied: [], missing: FIRST })
    expect(applied).toMatchObject({ code: 0, stdout: expect.stringMatching(/^0001 {2}life_of_a_job +applied /) })
    expect(after.code).toBe(0)
    expect(JSON.parse(after.stdout)).toMatchObject({ applied: FIRST, missing: [] })
  })
})
