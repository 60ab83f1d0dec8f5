import { randomBytes } from 'node:crypto'
import { symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { connect } from '../../src/connect.js'
import type { Holdfast } from '../../src/holdfast.js'
import { dropSchema, testServerUrl } from '../support/postgres.js'
import { makeProject, type Running, type RunOptions, run, start } from './support.js'

const ROOT = join(import.meta.dirname, '..', '..')
const url = testServerUrl()
const schema = `cli_worker_${randomBytes(4).toString('hex')}`
const at: RunOptions = { env: { HOLDFAST_URL: url, HOLDFAST_SCHEMA: schema } }

let holdfast: Holdfast

beforeAll(async () => {
  holdfast = await connect(url, { schema, upkeep: false })
})

afterAll(async () => {
  await holdfast.close()
  await dropSchema(url, schema)
})

const JOBS = `
import { setTimeout as sleep } from 'node:timers/promises'
import { defineJob } from 'holdfast'
const queue = process.env.TEST_QUEUE
const fixed = { backoff: 'fixed', base: '10ms' }
export const handlers = [
  defineJob('quick', { queue }).handle(() => 'done'),
  defineJob('slow', { queue }).handle(() => sleep(300).then(() => 'done')),
  defineJob('patient', { queue }).handle((_, { signal }) => sleep(60_000, null, { signal })),
  defineJob('deaf', { queue }).handle(() => sleep(60_000)),
  defineJob('flaky', { queue, retry: fixed }).handle((_, { attempt }) => {
    if (attempt === 1) throw new Error('not yet')
    return 'done'
  }),
  defineJob('escaping', { queue, maxAttempts: 1 }).handle(async (how) => {
    if (how === 'throws') setTimeout(() => { throw new Error('thrown in a timer') }, 1)
    else void Promise.resolve().then(() => { throw new Error('rejected in passing') })
    await sleep(60_000)
  }),
]
`

const PRETTY = ['--log-format', 'pretty']

/** A worker on a queue of its own; resolves when it has started. */
async function startWorker(queue: string, ...args: string[]): Promise<Running> {
  const cwd = await makeProject({ 'jobs.js': JOBS })
  const env = { ...at.env, TEST_QUEUE: queue }
  const running = start(['worker', './jobs.js', '--log-level', 'debug', '--log-format', 'pretty', ...args], {
    cwd,
    env,
  })
  if (!args.includes('--json')) await running.line(/^worker \S+: 6 types/)
  return running
}

describe('the module', () => {
  test.each([
    { what: 'that does not exist', text: null, code: 3, says: 'there is no module' },
    { what: 'without handlers', text: 'export const other = 1', code: 2, says: 'has no handlers: it exports other: 1' },
    { what: 'with an empty list', text: 'export default []', code: 2, says: 'has no handlers' },
    { what: 'with something else in the list', text: 'export default [1]', code: 2, says: 'defineJob(…).handle(…)' },
    {
      what: 'with two handlers for a type',
      text: `import { defineJob } from 'holdfast'
        const job = defineJob('twice')
        export const handlers = [job.handle(() => 1), job.handle(() => 2)]`,
      code: 2,
      says: 'type "twice" has two handlers',
    },
    {
      what: 'whose middleware is none',
      text: `import { defineJob } from 'holdfast'
        export const middleware = [{ run: 'around' }]
        export const handlers = [defineJob('quick').handle(() => 1)]`,
      code: 2,
      says: 'jobs.js: run must be a function, got "around"',
    },
    {
      what: 'that throws',
      text: 'throw new TypeError("no such setting")',
      code: 1,
      says: 'TypeError: no such setting',
    },
    { what: 'with a mistake in it', text: 'export const = 1', code: 1, says: 'cannot be loaded: SyntaxError' },
  ])('one $what ends with $code, before anything connects', async ({ text, code, says }) => {
    const cwd = await makeProject(text === null ? {} : { 'jobs.js': text })

    const ended = await run(['worker', './jobs.js', '--url', 'postgres://127.0.0.1:1/none'], { cwd })

    expect(ended.code).toBe(code)
    expect(ended.stderr).toContain(says)
    expect(ended.stderr).not.toMatch(/^ +at /m)
  })

  test('may be CommonJS, or have its list as the default export', async () => {
    const cwd = await makeProject({
      'list.js': `import { defineJob } from 'holdfast'; export default [defineJob('quick').handle(() => 1)]`,
      'old.cjs': `const { defineJob } = require('holdfast'); exports.handlers = [defineJob('quick').handle(() => 1)]`,
    })
    const both = [
      start(['worker', 'list.js', ...PRETTY], { ...at, cwd }),
      start(['worker', 'old.cjs', ...PRETTY], { ...at, cwd }),
    ]

    for (const running of both) await running.line(/^worker \S+: 1 type in default, 10 slots/)
  })

  test('may export middleware, which is around the runs in the worker and in its children', async () => {
    const queue = `q${randomBytes(4).toString('hex')}`
    const cwd = await makeProject({
      'jobs.js': `import { defineJob } from 'holdfast'
        const queue = '${queue}'
        export const middleware = { run: async (ctx, next) => [process.pid, await next()] }
        export const handlers = [
          defineJob('here', { queue }).handle(() => process.pid),
          defineJob('apart', { queue, isolate: 'process' }).handle(() => process.pid),
        ]`,
    })
    await start(['worker', './jobs.js', ...PRETTY], { ...at, cwd }).line(/^worker \S+: 2 types/)

    const handles = await Promise.all(['here', 'apart'].map((type) => holdfast.enqueue(type, null, { queue })))
    const results = await Promise.all(handles.map((handle) => handle.wait({ timeout: '20s' })))

    const [here, apart] = results as [number, number][]
    expect(here![0]).toBe(here![1])
    expect(apart![0]).toBe(apart![1])
    expect(apart![0]).not.toBe(here![0])
  })

  const TYPED = `import { defineJob } from 'holdfast'
    import { answer } from './answer.js'
    enum Kind { quick = 'quick' }
    export const handlers = [defineJob(Kind.quick).handle((): number => answer)]`
  // Imported as ./answer.js, the name of its JavaScript, as TypeScript wants it.
  const ANSWER = 'export const answer: number = 1'

  test.each([
    { file: 'jobs.ts', type: 'module' },
    { file: 'jobs.mts', type: 'commonjs' },
    { file: 'jobs.ts', type: 'commonjs' },
  ])('may be TypeScript where the project has tsx: $file, $type', async ({ file, type }) => {
    const cwd = await makeProject({ [file]: TYPED, 'answer.ts': ANSWER, 'package.json': `{ "type": "${type}" }` })
    await symlink(join(ROOT, 'node_modules', 'tsx'), join(cwd, 'node_modules', 'tsx'), 'junction')
    const running = start(['worker', `./${file}`, ...PRETTY], { ...at, cwd })

    await running.line(/^worker \S+: 1 type in default, 10 slots/)
  })

  test.skipIf('typescript' in process.features)(
    'TypeScript that cannot be loaded is refused with what to do',
    async () => {
      const cwd = await makeProject({ 'jobs.ts': TYPED })

      const { code, stderr } = await run(['worker', './jobs.ts', '--url', 'postgres://127.0.0.1:1/none'], { cwd })

      expect(code).toBe(1)
      expect(stderr).toContain('npm install --save-dev tsx')
    },
  )

  test('a wrong option is refused before anything connects', async () => {
    const cwd = await makeProject({ 'jobs.js': JOBS })
    const args = ['worker', './jobs.js', '--concurrency', '0', '--url', 'postgres://127.0.0.1:1/none']

    const { code, stderr } = await run(args, { cwd })

    expect(code).toBe(2)
    expect(stderr).toContain('concurrency must be a whole number from 1')
  })
})

describe('running', () => {
  test('flags win over the environment, and both over the module', async () => {
    const cwd = await makeProject({ 'jobs.js': JOBS })
    const env = { ...at.env, TEST_QUEUE: 'theirs', HOLDFAST_QUEUES: 'one,two', HOLDFAST_CONCURRENCY: '3' }

    const running = start(['worker', './jobs.js', '--concurrency', '7', ...PRETTY], { cwd, env })

    await running.line(/: 6 types in one, two, 7 slots/)
  })

  test('prints what happens to each job', async () => {
    const worker = await startWorker('printed')
    await holdfast.enqueue('flaky', null, {
      queue: 'printed',
      retry: { backoff: 'fixed', base: '10ms', jitter: false },
    })

    await worker.line(/flaky +[0-9a-f]{6} {2}started$/)
    await worker.line(/flaky +[0-9a-f]{6} {2}failed: not yet · retry in 10 ms \(attempt 1 of 25\)$/)
    await worker.line(/flaky +[0-9a-f]{6} {2}started again, attempt 2$/)
    await worker.line(/flaky +[0-9a-f]{6} {2}succeeded in /)
  })

  test('with --json prints one event a line on stdout', async () => {
    const worker = await startWorker('lines', '--json')
    const { id } = await holdfast.enqueue('quick', null, { queue: 'lines' })
    await worker.line(/"event":"job.settled"/)
    worker.signal('SIGTERM')

    const { stdout, stderr } = await worker.ended

    const events = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
    expect(events).toContainEqual(
      expect.objectContaining({ schemaVersion: 1, event: 'job.settled', id, state: 'succeeded' }),
    )
    expect(stderr).toBe('')
  })

  test.each(['throws', 'rejects'])('an uncaught error that %s fails only its own job', async (how) => {
    const queue = `escaping-${how}`
    const worker = await startWorker(queue)
    const { id } = await holdfast.enqueue('escaping', how, { queue })

    await worker.line(/escaping +[0-9a-f]{6} {2}dead: (thrown in a timer|rejected in passing) · all its attempts/)
    const next = await holdfast.enqueue('quick', null, { queue })

    await expect(holdfast.wait(next.id)).resolves.toBe('done')
    expect(await holdfast.get(id)).toMatchObject({ state: 'dead', reason: 'attempts' })
  })

  test('an uncaught error outside of any job drains the worker and ends with 1', async () => {
    const queue = 'orphan'
    const cwd = await makeProject({
      'jobs.js': `${JOBS}\nprocess.on('SIGUSR2', () => { throw new Error('outside of any job') })`,
    })
    const worker = start(['worker', './jobs.js', '--log-level', 'debug', '--log-format', 'pretty'], {
      cwd,
      env: { ...at.env, TEST_QUEUE: queue },
    })
    const { id } = await holdfast.enqueue('slow', null, { queue })
    await worker.line(/slow .* started$/)
    worker.signal('SIGUSR2')

    const { code, stderr } = await worker.ended

    expect(code).toBe(1)
    expect(stderr).toContain('error: Error: outside of any job')
    expect(stderr).toMatch(/^ +at .*jobs\.js/m)
    expect(await holdfast.get(id)).toMatchObject({ state: 'succeeded' })
  })
})

describe('stopping', () => {
  test.each(['SIGTERM', 'SIGINT'] as const)('%s lets running jobs finish and ends with 0', async (signal) => {
    const queue = `drained-${signal}`
    const worker = await startWorker(queue)
    const { id } = await holdfast.enqueue('slow', null, { queue })
    await worker.line(/slow .* started$/)
    worker.signal(signal)

    const { code, stderr } = await worker.ended

    expect(code).toBe(0)
    expect(stderr).toContain('stopping: 1 running')
    expect(await holdfast.get(id)).toMatchObject({ state: 'succeeded', result: 'done' })
  })

  test('releases jobs that outlast the drain time, without counting the attempt, and ends with 0', async () => {
    const worker = await startWorker('released', '--drain-timeout', '50ms')
    const { id } = await holdfast.enqueue('patient', null, { queue: 'released' })
    await worker.line(/patient .* started$/)
    worker.signal('SIGTERM')

    const { code, stderr } = await worker.ended

    expect(code).toBe(0)
    expect(stderr).toContain('stopped; 1 released unfinished')
    expect(await holdfast.get(id)).toMatchObject({ state: 'ready', attempt: 0 })
  })

  test('the same Ctrl-C received twice, as with npm, still drains', async () => {
    const worker = await startWorker('twice')
    const { id } = await holdfast.enqueue('slow', null, { queue: 'twice' })
    await worker.line(/slow .* started$/)
    worker.signal('SIGINT')
    await worker.line(/^stopping/)
    worker.signal('SIGINT')

    const { code } = await worker.ended

    expect(code).toBe(0)
    expect(await holdfast.get(id)).toMatchObject({ state: 'succeeded' })
  })

  test.each([
    { signal: 'SIGINT', code: 130 },
    { signal: 'SIGTERM', code: 143 },
  ] as const)('a second $signal exits immediately with $code', async ({ signal, code }) => {
    const queue = `left-${signal}`
    const worker = await startWorker(queue)
    const { id } = await holdfast.enqueue('deaf', null, { queue })
    onTestFinished(async () => {
      await holdfast.cancel(id)
    })
    await worker.line(/deaf .* started$/)
    worker.signal(signal)
    await worker.line(/^stopping/)
    // Sooner it would count as the same signal.
    await sleep(600)
    worker.signal(signal)

    const ended = await worker.ended

    expect(ended.code).toBe(code)
    expect(ended.stderr).toContain('stopped immediately')
    expect(await holdfast.get(id)).toMatchObject({ state: 'running' })
  })
})
